/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Pyroscope's clients send: the first byte chooses the request, the rest is its body. It goes through the server, as
 * HTTP/1.1 over a socket pair, to the service and to a sink that checks the batch.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "model/batch.h"
#include "model/sink.h"
#include "net/exchange.h"
#include "pipeline/receivers/pyroscope_service.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct loop *loop;
static struct http_server *server;

static void consume(struct sink *s, struct batch *b, const struct sink_context *ctx, struct ack *ack)
{
    struct err e = {0};

    if (batch_validate(b, &e) < 0) {
        fprintf(stderr, "%s\n", e.message);
        abort();
    }
    ack_ok(ack);
}

static struct sink sink = {.consume = consume};
static struct pyroscope_service service = {.sink = &sink, .max_inflated = 1 << 20};

static void handle(void *arg, struct http_request *q)
{
    pyroscope_service_handle(&service, q);
}

static void setup(void)
{
    struct http_server_options o = {.n_loops = 1, .handle = handle, .max_body = 1 << 20};

    if (loop_new(&loop, NULL) < 0)
        abort();
    o.loops = &loop;
    if (http_server_new(&o, &server, NULL) < 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const heads[] = {
        "POST /push.v1.PusherService/Push HTTP/1.1\r\ncontent-type: application/proto\r\n",
        "POST /push.v1.PusherService/Push HTTP/1.1\r\ncontent-type: application/json\r\n",
        "POST /ingest?name=app.cpu%7Ba=b,c=%22d%22%7D&from=1700000000&until=1700000010&sampleRate=97 HTTP/1.1\r\n",
        "POST /ingest?name=app&format=pprof HTTP/1.1\r\ncontent-type: multipart/form-data; boundary=xx\r\n",
        "POST /ingest?name=app.alloc_space&format=lines HTTP/1.1\r\n",
    };
    struct worker *w;
    char head[512], out[65536];
    int fd[2], n;

    if (!loop)
        setup();
    w = &server->workers[0];
    if (size < 1 || size > 60000 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd) < 0)
        return 0;
    atomic_fetch_add(&server->connections, 1);
    conn_open(w, fd[0], "fuzz");
    n = snprintf(head, sizeof head, "%shost: x\r\ncontent-length: %zu\r\n\r\n", heads[data[0] % ARRAY_SIZE(heads)],
                 size - 1);
    send(fd[1], head, (size_t) n, MSG_NOSIGNAL);
    send(fd[1], data + 1, size - 1, MSG_NOSIGNAL);
    for (int i = 0; i < 10; i++) {
        loop_run_once(loop, 0);
        recv(fd[1], out, sizeof out, 0);
    }
    close(fd[1]);
    for (int i = 0; i < 20 && w->n_conns; i++)
        loop_run_once(loop, 0);
    while (w->conns)
        conn_close(w->conns);
    if (w->n_handed || atomic_load(&server->buffered))
        abort();
    return 0;
}
