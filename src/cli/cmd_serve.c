/* SPDX-License-Identifier: Apache-2.0 */
/* wick serve: options, signals and messages; the server itself is in src/serve. */
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/notify.h"
#include "base/thread.h"
#include "cli/command.h"
#include "conf/args.h"
#include "conf/paths.h"
#include "demo/demo_run.h"
#include "net/address.h"
#include "serve/serve_end.h"
#include "serve/serve_load.h"
#include "serve/serve_run.h"
#include "serve/serve_summary.h"
#include "server/serve_config.h"

static const struct arg serve_args[] = {
    {'c', "config", ARG_LIST, offsetof(struct serve_args, config), "FILE",
     "configuration file (wick.yaml); repeatable, later ones override"},
    {0, "set", ARG_LIST, offsetof(struct serve_args, set), "KEY=VALUE", "set one value, as in retention.keep=7d"},
    {0, "store", ARG_STRING, offsetof(struct serve_args, store), "DIR",
     "directory for profiles; 'memory' keeps them in memory only; clickhouse://USER@HOST:PORT/DATABASE"},
    {0, "role", ARG_STRING, offsetof(struct serve_args, role), "all|ingest|query",
     "with a store that servers share: what this one does (default all)"},
    {0, "http", ARG_STRING, offsetof(struct serve_args, http), "ADDR",
     "address or port of the API and the web UI (default 127.0.0.1:4040)"},
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

static void reload(struct serve *s, const char *url)
{
    notify_reloading();
    serve_reload(s);
    notify_ready(url);
}

/* Waits until SIGTERM or SIGINT. */
static void wait_for_end(struct serve *s, const sigset_t *set, const char *url)
{
    const int64_t minute = 60 * NS_PER_S, beat = notify_interval(), wait = beat ? MIN(beat, minute) : minute;
    const struct timespec t = {.tv_sec = wait / NS_PER_S, .tv_nsec = wait % NS_PER_S};
    int64_t trimmed = clock_mono();

    for (;;) {
        int sig;

        if (beat && serve_pulse(s))
            notify_alive();
        sig = sigtimedwait(set, NULL, &t);
        if (sig == SIGTERM || sig == SIGINT) {
            log_info("stopping");
            return;
        }
        if (sig == SIGHUP)
            reload(s, url);
        else if (sig < 0 && errno == EAGAIN && clock_mono() - trimmed >= minute) {
            malloc_trim(0); /* returns the memory of a large answer to the system */
            trimmed = clock_mono();
        }
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

/* A server that `wick demo` started ends with it, however it ends. Called after the user was changed, which makes the kernel
 * forget what the parent had asked for. */
static void follow_parent(void)
{
    const char *text = getenv(SERVE_PARENT_ENV);
    int64_t parent;

    if (!text || str_to_i64(str_from(text), 10, &parent) < 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        raise(SIGTERM); /* blocked: it is taken after the start */
}

/* What it does, in four lines after the address. */
static void print_summary(const struct serve *s, const sigset_t *set)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;

    serve_summary_wait(s, set);
    serve_summary(s, &b);
    fputs(buf_cstr(&b) ? buf_cstr(&b) : "", stdout);
    fflush(stdout);
}

static int serve(struct serve_args *a, struct err *e)
{
    char data_dir[PATH_SIZE], url[300];
    struct serve *s = NULL;
    sigset_t set;
    int r = path_data_dir(data_dir, e);

    prepare_process(&set);
    notify_open();
    a->data_dir = data_dir;
    if (r == 0)
        r = serve_start(a, &s, e);
    if (r < 0)
        return r;
    follow_parent();
    printf("wick serve is ready: %s\n", serve_url(s, url, sizeof url));
    fflush(stdout);
    notify_ready(url);
    print_summary(s, &set);
    wait_for_end(s, &set, url);
    notify_stopping();
    serve_end_begin();
    serve_stop(s);
    return 0;
}

static void serve_help(FILE *out)
{
    args_text(
        "usage: wick serve [--config wick.yaml] [options]\n\n"
        "Receives and stores OTLP profiles and serves queries: web UI and API on port 4040, OTLP on 4317 (gRPC) and "
        "4318 (HTTP), on loopback by default. SIGHUP reloads configuration and certificates, SIGTERM stops the "
        "server.\n\n",
        out);
    args_help(serve_args, out);
}

static int print_reference(void)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;

    serve_config_reference(&b);
    return fd_write_file("-", b.p, b.n, NULL) < 0 ? EXIT_FAILED : EXIT_DONE;
}

/* Those of the command line; what is in a file is checked with the file. */
static int check_addresses(const struct serve_args *a, struct err *e)
{
    const char *const given[][2] = {{"http", a->http}, {"otlp-grpc", a->otlp_grpc}, {"otlp-http", a->otlp_http}};
    struct address_parts parts;

    for (size_t i = 0; i < ARRAY_SIZE(given); i++)
        if (given[i][1] && strcmp(given[i][1], "off") != 0 && address_split(given[i][1], NULL, &parts, e) < 0)
            return err_prefix(e, -EINVAL, "--%s: ", given[i][0]);
    return 0;
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
    if (r == 0)
        r = check_addresses(&a, &e);
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
