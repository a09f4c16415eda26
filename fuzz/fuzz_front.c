/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every HTTP entry of wick serve: bytes of one connection go through the HTTP server and the router into the API, the
 * Pyroscope-compatible API, MCP, uploads of symbols, OTLP and Pyroscope's pushes, over a store in memory. A first byte that
 * is odd puts HTTP/2's preface before the rest. The peer is local, so that nothing stops at the door but wrong hosts.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "model/symbolizer.h"
#include "net/exchange.h"
#include "net/grpc.h"
#include "serve/serve_intake.h"
#include "server/api.h"
#include "server/front.h"
#include "server/name_source.h"
#include "server/serve_config.h"
#include "server/ui_info.h"
#include "store/store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ROUNDS_MAX = 2000, STORED_MAX = 500 };

static struct loop *loop;
static struct http_server *server;
static struct front *front;
static struct store *store;
static struct serve_intake *intake;
static char dir[] = "/tmp/wick-fuzz-XXXXXX";

/* The store has room for so much; the rest is taken and forgotten. */
static void keep_some(struct sink *s, struct payload data, const struct sink_context *ctx, struct ack *ack)
{
    static unsigned n;

    (void) s;
    if (n++ < STORED_MAX)
        store_append(store, data.batch, ctx, ack);
    else
        ack_ok(ack);
}
static struct sink some = {keep_some};

static int know_nothing(struct symbolizer *s, const struct symbol_request *q, struct symbol_answer **ret, struct err *e)
{
    (void) s;
    (void) q;
    (void) ret;
    return err_set(e, -ENOENT, "nothing is known");
}

static void free_nothing(struct symbolizer *s)
{
    (void) s;
}
static struct symbolizer nobody = {know_nothing, free_nothing};

static int (*const mounts[])(struct front *f) = {
    api_mount_query,     api_mount_status, api_mount_profile, api_mount_mcp, api_mount_openapi,    api_mount_symbols,
    api_mount_pyroscope, api_mount_render, api_mount_views,   api_mount_pid, api_mount_debuginfod,
};

static void must(int r)
{
    if (r < 0)
        abort();
}

static void clean_up(void)
{
    char path[64];

    snprintf(path, sizeof path, "rm -rf %s", dir);
    if (system(path) != 0)
        return;
}

static void setup(void)
{
    static struct serve_source source = {
        .prefix = "/src/", .dir = "/nonexistent", .link = "x://{path}:{line}@{revision}"};
    static struct ui_info ui = {.mode = "server", .settings = {.sources = &source, .n_sources = 1}};
    static struct name_source_options names = {.symbolizer = &nobody};
    struct front_options o = {.call_limit_ns = 2000000000, .memory_limit = 64 << 20, .version = "fuzz", .ui = &ui};
    struct http_server_options h = {.n_loops = 1, .handle = front_handle, .max_body = 1 << 20, .max_head = 16384};
    static struct serve_limits limits = {.request = 1 << 20, .series = 100};
    struct store_config c = {.max_late = -1, .max_early = -1};
    char tokens[64];

    if (!mkdtemp(dir))
        abort();
    atexit(clean_up);
    snprintf(tokens, sizeof tokens, "%s/tokens", dir);
    must(store_open(&store_memory, &c, &store, NULL));
    must(binary_store_open(dir, 1 << 20, 1 << 16, &names.files, NULL));
    must(name_source_new(&names, &o.names, NULL));
    must(auth_open(tokens, &o.auth, NULL));
    must(workers_new(&(struct workers_options){.n = 1, .waiting = 64}, &o.workers, NULL));
    o.store = store;
    must(front_new(&o, &front, NULL));
    for (size_t i = 0; i < ARRAY_SIZE(mounts); i++)
        must(mounts[i](front));
    must(serve_intake_new(&(struct serve_intake_options){.auth = o.auth, .limits = &limits}, &intake));
    serve_intake_open(intake, &(struct serve_intake_ends){.store = &some});
    must(serve_intake_start(intake, NULL));
    must(serve_intake_mount(intake, front));
    must(loop_new(&loop, NULL));
    h.loops = &loop;
    h.arg = front;
    must(http_server_new(&h, &server, NULL));
}

/* Until every call is answered. */
static void settle(int fd)
{
    char sink[65536];
    struct front_stats s;

    for (int i = 0, quiet = 0; i < ROUNDS_MAX && quiet < 3; i++) {
        loop_run_once(loop, quiet ? 0 : 1000000);
        while (recv(fd, sink, sizeof sink, MSG_DONTWAIT) > 0)
            ;
        front_stats(front, &s);
        quiet = s.running ? 0 : quiet + 1;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0";
    int fd[2];

    if (!loop)
        setup();
    if (size < 1 || size > 100000 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd) < 0)
        return 0;
    atomic_fetch_add(&server->connections, 1);
    conn_open(&server->workers[0], fd[0], "127.0.0.1:1", NULL);
    if (data[0] & 1)
        send(fd[1], preface, sizeof preface, MSG_NOSIGNAL);
    send(fd[1], data + 1, size - 1, MSG_NOSIGNAL);
    settle(fd[1]);
    fd_close(fd[1]);
    settle(-1);
    return 0;
}
