/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Pyroscope's clients send: the first byte chooses the request, the rest is its body. It goes through the server, as
 * HTTP/1.1 over a socket pair, to the service and to a sink that checks the batch.
 */
#include <stdio.h>

#include "model/batch.h"
#include "model/sink.h"
#include "pipeline/receivers/pyroscope_service.h"
#include "served.h"
#include "batch_validate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void consume(struct sink *s, struct payload data, const struct sink_context *ctx, struct ack *ack)
{
    struct err e = {0};

    if (batch_validate(data.batch, &e) < 0) {
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const heads[] = {
        "POST /push.v1.PusherService/Push HTTP/1.1\r\ncontent-type: application/proto\r\n",
        "POST /push.v1.PusherService/Push HTTP/1.1\r\ncontent-type: application/json\r\n",
        "POST /ingest?name=app.cpu%7Ba=b,c=%22d%22%7D&from=1700000000&until=1700000010&sampleRate=97 HTTP/1.1\r\n",
        "POST /ingest?name=app&format=pprof HTTP/1.1\r\ncontent-type: multipart/form-data; boundary=xx\r\n",
        "POST /ingest?name=app.alloc_space&format=lines HTTP/1.1\r\n",
    };
    char head[512];
    int fd, n;

    if (size < 1 || size > 60000)
        return 0;
    fd = served_open((struct http_server_options){.handle = handle, .max_body = 1 << 20});
    if (fd < 0)
        return 0;
    n = snprintf(head, sizeof head, "%shost: x\r\ncontent-length: %zu\r\n\r\n", heads[data[0] % ARRAY_SIZE(heads)],
                 size - 1);
    send(fd, head, (size_t) n, MSG_NOSIGNAL);
    send(fd, data + 1, size - 1, MSG_NOSIGNAL);
    served_run(fd, 10);
    served_end(fd);
    return 0;
}
