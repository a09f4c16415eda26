/* SPDX-License-Identifier: Apache-2.0 */
/* Starts and stops the processes of the demo, and prints what to look at (demo_run.h). */
#include "demo/demo_run.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/printable.h"
#include "client/ask.h"
#include "demo/demo_child.h"
#include "demo/demo_examples.h"
#include "demo/demo_shop.h"
#include "demo/demo_trace.h"
#include "query/answer_fields.h"

enum { DEMO_SERVER, DEMO_SERVICES = 3, READY_SECONDS = 30, VERDICT_SECONDS = 5 };
#define EXPORT_MS "2000"
#define PRICE "0.04" /* of a core for an hour, in dollars: so that the page shows what the deploy costs */
#define SET_PRICE "ui.price_per_core_hour=" PRICE

static const char *const roles[DEMO_SERVICES] = {"gateway", "checkout", "inventory"};

struct demo {
    pid_t server, service[DEMO_SERVICES];
    int pair[DEMO_SERVICES - 1][2]; /* between neighbours: [0] sends requests, [1] answers */
    char url[128], export[64];
    struct demo_examples examples;
};

static volatile sig_atomic_t stopped;

static void stop(int sig)
{
    (void) sig;
    stopped = 1;
}

static int free_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), port = -1;

    if (fd >= 0 && bind(fd, (struct sockaddr *) &a, n) == 0 && getsockname(fd, (struct sockaddr *) &a, &n) == 0)
        port = ntohs(a.sin_port);
    if (fd >= 0)
        close(fd);
    return port;
}

/* The server's ready line ends with its address. */
static int read_ready(int fd, char *ret, size_t size, struct err *e)
{
    char line[512] = "";
    size_t n = 0;

    while (!strchr(line, '\n')) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        ssize_t got;

        if (stopped || n + 1 >= sizeof line || poll(&p, 1, READY_SECONDS * 1000) <= 0)
            return err_set(e, -ETIMEDOUT, "the server did not start");
        got = read(fd, line + n, sizeof line - 1 - n);
        if (got <= 0)
            return err_set(e, -EIO, "the server did not start; run 'wick serve' to see why");
        n += (size_t) got;
        line[n] = 0;
    }
    *strchr(line, '\n') = 0;
    if (!strstr(line, "http://"))
        return err_set(e, -EIO, "unexpected output from the server: '%s'", line);
    snprintf(ret, size, "%s", strstr(line, "http://"));
    return 0;
}

static int start_server(struct demo *d, const char *http, struct err *e)
{
    char grpc[32], own[24], price[] = SET_PRICE;
    const char *argv[16] = {"wick", "serve",       "--store", "memory", "--otlp-http",
                            "off",  "--otlp-grpc", grpc,      "--set",  price};
    int out[2], r, n = 10;

    snprintf(grpc, sizeof grpc, "127.0.0.1:%d", free_port());
    snprintf(d->export, sizeof d->export, "http://%s", grpc);
    if (http) {
        argv[n++] = "--http";
        argv[n++] = http;
    }
    if (pipe(out) < 0)
        return err_set(e, -errno, "cannot create a pipe: %m");
    snprintf(own, sizeof own, "%d", (int) getpid());
    setenv(SERVE_PARENT_ENV, own, 1);
    d->server = demo_child_start("/proc/self/exe", argv, out[1]);
    unsetenv(SERVE_PARENT_ENV);
    r = d->server < 0 ? err_set(e, -errno, "cannot start a process: %m") : read_ready(out[0], d->url, sizeof d->url, e);
    close(out[0]);
    return r;
}

static void start_service(struct demo *d, int role, const char *version, bool bad)
{
    char up[16], down[16], attributes[64];
    const char *argv[] = {"wick",      "run",
                          "-t",        "cpu,wall,heap,lock",
                          "--export",  d->export,
                          "--service", roles[role],
                          "--",        "/proc/self/exe",
                          "demo",      "--role",
                          roles[role], "--up",
                          up,          "--down",
                          down,        "--traces",
                          d->url,      "--release",
                          version,     bad ? "--bad" : NULL,
                          NULL};

    snprintf(up, sizeof up, "%d", role > 0 ? d->pair[role - 1][1] : -1);
    snprintf(down, sizeof down, "%d", role < DEMO_SERVICES - 1 ? d->pair[role][0] : -1);
    snprintf(attributes, sizeof attributes, "service.version=%s,service.namespace=demo", version);
    setenv("OTEL_RESOURCE_ATTRIBUTES", attributes, 1);
    d->service[role] = demo_child_start("/proc/self/exe", argv, -1);
}

static void stop_all(struct demo *d)
{
    for (int i = 0; i < DEMO_SERVICES; i++)
        demo_child_stop(&d->service[i]);
    demo_examples_stop(&d->examples);
    demo_child_stop(&d->server);
}

/* Waits; returns 0 when the time is over, -ECANCELED on Ctrl-C, -ECHILD if one of the children has ended. */
static int wait_until(struct demo *d, int64_t end, struct err *e)
{
    while (clock_mono() < end) {
        if (stopped)
            return -ECANCELED;
        for (int i = 0; i < DEMO_SERVICES; i++)
            if (waitpid(d->service[i], NULL, WNOHANG) == d->service[i]) {
                d->service[i] = 0;
                return err_set(e, -ECHILD, "the service %s exited", roles[i]);
            }
        if (waitpid(d->server, NULL, WNOHANG) == d->server) {
            d->server = 0;
            return err_set(e, -ECHILD, "the server exited");
        }
        demo_examples_look(&d->examples);
        usleep(100000);
    }
    return 0;
}

static void tell_start(const struct demo *d, int64_t deploy)
{
    printf(
        "Three services are running: gateway, checkout and inventory. They send profiles and traces.\n"
        "The gateway leaks memory, and the inventory has a lock that orders wait for: look for both.\n"
        "Open the web UI in a browser:\n  %s\n"
        "Latency of the operations, and what the slow ones do differently:\n"
        "  %s/spans?service=checkout\n"
        "  wick query span --service checkout --span-name 'POST /order' --slowest 5 --server %s\n"
        "Costs are at " PRICE " $ per core and hour (ui.price_per_core_hour in wick.yaml sets yours).\n"
        "After %lld seconds a slower version of checkout is deployed. Press Ctrl-C to stop; nothing is left behind.\n",
        d->url, d->url, d->url, (long long) (deploy / NS_PER_S));
    fflush(stdout);
}

static void tell_deploy(const struct demo *d)
{
    printf(
        "checkout 1.6.0 replaced 1.5.0 and is slower. The verdict follows when there is enough data; compare yourself:\n"
        "  %s/compare\n"
        "  wick query top 'cpu{service.name=\"checkout\",service.version=\"1.6.0\"}' --sort delta \\\n"
        "      --base-query 'cpu{service.name=\"checkout\",service.version=\"1.5.0\"}' --server %s\n",
        d->url, d->url);
    fflush(stdout);
}

/* --- the verdict --- */

static struct str verdict_param(void *ctx, const char *name)
{
    (void) ctx;
    return strcmp(name, "service") == 0   ? STR("checkout")
           : strcmp(name, "version") == 0 ? STR("1.6.0")
                                          : (struct str){"", 0};
}

/* Asks the server whether the deploy made it worse; prints the answer and returns true when it knows. */
static bool print_verdict(const struct demo *d)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT, safe = BUF_INIT;
    struct ask_target target = {.server = d->url};
    struct verdict_answer v = {0};
    struct arena arena;
    bool known;

    arena_init(&arena, 1 << 20);
    known = ask_question(&target, question_find(STR("verdict")), verdict_param, NULL, &out, NULL) == 0 &&
            record_read_value(buf_str(&out), &answer_of_verdict, RECORD_ANSWER, &arena, &v, NULL) == 0 &&
            v.verdict != VERDICT_UNKNOWN;
    if (known) {
        printable_put(&safe, str_from(v.sentence), false);
        printf("Verdict: %.*s\n  wick query verdict --service checkout --server %s\n", STR_FMT(buf_str(&safe)), d->url);
        fflush(stdout);
    }
    arena_done(&arena);
    return known;
}

/* Waits for the end, and prints the verdict as soon as there is one. */
static int wait_for_verdict(struct demo *d, int64_t end, struct err *e)
{
    bool printed = false;
    int r = 0;

    while (r == 0 && clock_mono() < end) {
        r = wait_until(d, MIN(clock_mono() + VERDICT_SECONDS * NS_PER_S, end), e);
        if (r == 0 && !printed)
            printed = print_verdict(d);
    }
    return r;
}

/* Passes the times of the deploy and of the end to the server, for the web UI. Services do not inherit it. */
static void announce(int64_t deploy, int64_t end)
{
    char text[64];

    snprintf(text, sizeof text, "%lld:%lld", (long long) (clock_wall() + deploy), (long long) (clock_wall() + end));
    setenv(DEMO_TIMES_ENV, text, 1);
}

static int play(struct demo *d, const struct demo_options *o, struct err *e)
{
    int64_t begin = clock_mono(), deploy = o->deploy ? o->deploy : o->duration * 2 / 5;
    int r;

    setenv("WICK_EXPORT_INTERVAL_MS", EXPORT_MS, 0); /* so that the first flame graph appears soon */
    setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", 1);
    for (int i = 0; i < DEMO_SERVICES - 1; i++)
        if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, d->pair[i]) < 0)
            return err_set(e, -errno, "cannot create a socket: %m");
    announce(deploy, o->duration);
    r = start_server(d, o->http, e);
    unsetenv(DEMO_TIMES_ENV);
    if (r < 0)
        return r;
    for (int i = 0; i < DEMO_SERVICES; i++)
        start_service(d, i, "1.5.0", false);
    tell_start(d, deploy);
    if (o->with)
        r = demo_examples_start(&d->examples, o->with, d->url, e);
    if (r == 0)
        r = wait_until(d, begin + deploy, e);
    if (r == 0) {
        demo_child_stop(&d->service[DEMO_CHECKOUT]);
        start_service(d, DEMO_CHECKOUT, "1.6.0", true);
        tell_deploy(d);
        r = wait_for_verdict(d, begin + o->duration, e);
    }
    return r == -ECANCELED ? 0 : r;
}

int demo_role(const struct demo_role_options *o)
{
    for (int i = 0; i < DEMO_SERVICES; i++)
        if (strcmp(o->role, roles[i]) == 0) {
            if (o->traces)
                demo_trace_start(o->traces, o->role, o->release ? o->release : "");
            demo_shop_run((enum demo_role) i, &(struct demo_links){(int) o->up, (int) o->down}, o->bad);
            return 0;
        }
    return -EINVAL;
}

int demo_run(const struct demo_options *o, struct err *e)
{
    struct sigaction on = {.sa_handler = stop};
    struct demo d = {0};
    int r;

    sigaction(SIGINT, &on, NULL);
    sigaction(SIGTERM, &on, NULL);
    r = play(&d, o, e);
    stop_all(&d);
    return r;
}
