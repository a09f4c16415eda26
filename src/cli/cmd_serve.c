/* SPDX-License-Identifier: Apache-2.0 */
/* wick serve: options, signals and messages; the server itself is in src/serve. */
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/thread.h"
#include "cli/command.h"
#include "conf/paths.h"
#include "conf/args.h"
#include "serve/serve_load.h"
#include "serve/serve_run.h"
#include "server/serve_config.h"

static const struct arg serve_args[] = {
    {'c', "config", ARG_LIST, offsetof(struct serve_args, config), "FILE",
     "configuration file (wick.yaml); repeatable, later ones override"},
    {0, "set", ARG_LIST, offsetof(struct serve_args, set), "KEY=VALUE", "set one value, as in retention.keep=7d"},
    {0, "store", ARG_STRING, offsetof(struct serve_args, store), "DIR",
     "directory for profiles; 'memory' keeps them in memory only; clickhouse://USER@HOST:PORT/DATABASE"},
    {0, "role", ARG_STRING, offsetof(struct serve_args, role), "NAME",
     "with a store that servers share: ingest, query or all (default)"},
    {0, "http", ARG_STRING, offsetof(struct serve_args, http), "ADDR",
     "address of the API and the web UI (default 127.0.0.1:4040)"},
    {0, "otlp-grpc", ARG_STRING, offsetof(struct serve_args, otlp_grpc), "ADDR",
     "address for OTLP/gRPC, or off (default 127.0.0.1:4317)"},
    {0, "otlp-http", ARG_STRING, offsetof(struct serve_args, otlp_http), "ADDR",
     "address for OTLP/HTTP, or off (default 127.0.0.1:4318)"},
    {0, "insecure", ARG_FLAG, offsetof(struct serve_args, insecure), NULL,
     "allow listening beyond loopback without TLS and tokens"},
    {0, "no-agent", ARG_FLAG, offsetof(struct serve_args, no_agent), NULL,
     "do not profile this machine (same as WICK_NO_AGENT=1)"},
    {0, "scrape", ARG_LIST, offsetof(struct serve_args, scrape), "URL",
     "profile the program that serves /debug/pprof/ at URL, as http://localhost:8080; repeatable"},
    {0, "check", ARG_FLAG, offsetof(struct serve_args, check), NULL, "check the configuration and exit"},
    {0, "print-reference", ARG_FLAG, offsetof(struct serve_args, reference), NULL, "print all options of wick.yaml"},
    {'h', "help", ARG_FLAG, offsetof(struct serve_args, help), NULL, "show this help"},
    {0},
};

/* Waits until SIGTERM or SIGINT. */
static void wait_for_end(struct serve *s, const sigset_t *set)
{
    static const struct timespec minute = {.tv_sec = 60};

    for (;;) {
        int sig = sigtimedwait(set, NULL, &minute);

        if (sig == SIGTERM || sig == SIGINT) {
            log_info("stopping");
            return;
        }
        if (sig == SIGHUP)
            serve_reload(s);
        else if (sig < 0 && errno == EAGAIN)
            malloc_trim(0); /* returns the memory of a large answer to the system */
    }
}

static void prepare_process(sigset_t *ret)
{
    sigemptyset(ret);
    sigaddset(ret, SIGTERM);
    sigaddset(ret, SIGINT);
    sigaddset(ret, SIGHUP);
    sigprocmask(SIG_BLOCK, ret, NULL);
    signal(SIGPIPE, SIG_IGN);
    thread_let_through(SIGPROF); /* /debug/pprof/ samples these threads with it; otherwise it is never sent */
    signal(SIGPROF, SIG_IGN);
    fd_raise_limit();
    /* Keep the memory of requests in the heap between them, but not that of large ones: in the heap a body that grows is
     * copied, which would hold up an event loop. */
    mallopt(M_MMAP_THRESHOLD, 4 << 20);
    mallopt(M_TRIM_THRESHOLD, 8 << 20);
}

static int serve(struct serve_args *a, struct err *e)
{
    char data_dir[PATH_SIZE], url[300];
    struct serve *s = NULL;
    sigset_t set;
    int r = path_data_dir(data_dir, e);

    prepare_process(&set);
    if (r == 0)
        r = serve_start(a, data_dir, &s, e);
    if (r < 0)
        return r;
    printf("wick serve is ready: %s\n", serve_url(s, url, sizeof url));
    fflush(stdout);
    wait_for_end(s, &set);
    serve_stop(s);
    return 0;
}

static void serve_help(FILE *out)
{
    fputs(
        "usage: wick serve [--config wick.yaml] [options]\n\n"
        "Receives and stores OTLP profiles and serves queries: web UI and API on port 4040, OTLP on 4317 (gRPC) and 4318\n"
        "(HTTP), on loopback by default. SIGHUP reloads configuration and certificates, SIGTERM stops the server.\n\n",
        out);
    args_help(serve_args, out);
}

static int print_reference(void)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;

    serve_config_reference(&b);
    return fd_write_file("-", b.p, b.n, NULL) < 0 ? EXIT_FAILED : EXIT_DONE;
}

static int serve_run(int argc, char **argv)
{
    struct serve_args a = {0};
    struct err e = {0};
    int n, r = args_parse(serve_args, &a, argc - 1, argv + 1, &n, &e);

    if (a.help) {
        serve_help(stdout);
        return EXIT_DONE;
    }
    if (r == 0 && n)
        r = err_set(&e, -EINVAL, "unexpected argument '%s'", argv[1]);
    if (r < 0) {
        log_error("serve: %s; see wick serve --help", e.message);
        return EXIT_USAGE;
    }
    if (a.reference)
        return print_reference();
    r = a.check ? serve_check(&a, &e) : serve(&a, &e);
    if (r < 0)
        log_error("serve: %s", err_message(&e, r));
    return r < 0 ? EXIT_FAILED : EXIT_DONE;
}

const struct command command_serve = {"serve", "receive and store profiles; serve the web UI and the API", serve_run};
