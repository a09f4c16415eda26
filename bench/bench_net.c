/* SPDX-License-Identifier: Apache-2.0 */
/*
 * src/net against what the kernel alone costs. Each part forks: the server stays on CPU 0, the load runs on CPU 1.
 *
 *   raw   the same bytes through a TCP socket, read and thrown away: the floor
 *   grpc  unary calls of 197 kB, discarded, over 4 connections with 4 calls in flight each
 *   idle  10,000 HTTP/2 connections that do nothing
 *
 * bench_net [SECONDS]: prints a markdown table.
 */
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../tests/tools/grpc_client.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "net/server.h"

enum { MESSAGE = 197461, CONNECTIONS = 4, IN_FLIGHT = 4, IDLE = 10000 };

static int64_t seconds = 3;
static char message[MESSAGE];

static void pin(int cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(cpu % (int) sysconf(_SC_NPROCESSORS_ONLN), &set);
    sched_setaffinity(0, sizeof set, &set);
}

static void check(bool good, const char *what)
{
    if (good)
        return;
    perror(what);
    exit(1);
}

/* --- raw --- */
static void raw_send(int port)
{
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t) port), .sin_addr.s_addr = htonl(0x7f000001)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    int64_t until = clock_mono() + seconds * NS_PER_S;

    pin(1);
    check(connect(fd, (struct sockaddr *) &a, sizeof a) == 0, "connect");
    while (clock_mono() < until)
        for (size_t done = 0; done < MESSAGE;) {
            ssize_t n = send(fd, message + done, MESSAGE - done, MSG_NOSIGNAL);

            check(n > 0, "send");
            done += (size_t) n;
        }
    _exit(0);
}

static double bench_raw(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000001)};
    socklen_t len = sizeof a;
    int listener = socket(AF_INET, SOCK_STREAM, 0), fd;
    char *buffer = mem_alloc(256 << 10);
    int64_t cpu, start;
    uint64_t total = 0;
    pid_t child;

    check(bind(listener, (struct sockaddr *) &a, len) == 0 && listen(listener, 1) == 0, "listen");
    getsockname(listener, (struct sockaddr *) &a, &len);
    child = fork();
    if (child == 0)
        raw_send(ntohs(a.sin_port));
    fd = accept(listener, NULL, NULL);
    cpu = clock_cpu();
    start = clock_mono();
    for (ssize_t n; (n = recv(fd, buffer, 256 << 10, 0)) > 0;)
        total += (uint64_t) n;
    cpu = clock_cpu() - cpu;
    start = clock_mono() - start;
    waitpid(child, NULL, 0);
    close(fd);
    close(listener);
    mem_free(buffer);
    printf("| raw TCP read (the floor) | %.0f | %.0f | %.1f | 1.00 |\n",
           (double) total / MESSAGE / ((double) start / 1e9), (double) total / 1e6 / ((double) start / 1e9),
           (double) cpu / 1e3 / ((double) total / MESSAGE));
    return (double) cpu / ((double) total / MESSAGE);
}

/* --- the server of the other parts --- */
static struct loop *loop;
static uint64_t n_requests;

static void handle(void *arg, struct http_request *q)
{
    _cleanup_(buf_done) struct buf inflated = BUF_INIT;
    struct grpc_status st = {0};
    struct str m;

    n_requests++;
    grpc_request_message(q, 4 << 20, &inflated, &m, &st);
    grpc_reply(q, &st, (struct str){0});
}

static void child_gone(struct loop_io *io, uint32_t events)
{
    loop_stop(loop);
}

static void server_gone(void *arg)
{
    loop_stop(loop);
}

/* Serves until the child ends, which `talk` runs in with the port. Calls at_end before the connections go. */
static void serve(void (*talk)(int port, int ready), void (*at_end)(void))
{
    struct http_server_options o = {.n_loops = 1, .handle = handle};
    struct loop_io pipe_io = {.ready = child_gone};
    struct http_server *s;
    int ends[2], port;
    pid_t child;

    check(loop_new(&loop, NULL) == 0, "loop");
    o.loops = &loop;
    check(http_server_new(&o, &s, NULL) == 0 && http_server_listen(s, "127.0.0.1:0", &port, NULL) == 0, "server");
    check(pipe(ends) == 0, "pipe");
    child = fork();
    if (child == 0) {
        close(ends[0]);
        talk(port, ends[1]);
        _exit(0);
    }
    close(ends[1]);
    loop_io_add(loop, &pipe_io, ends[0], EPOLLIN);
    loop_run(loop); /* a byte or the end of the pipe */
    loop_io_remove(&pipe_io);
    at_end();
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    http_server_stop(s, 0, server_gone, NULL);
    loop_run(loop);
    http_server_free(s);
    loop_free(loop);
    close(ends[0]);
}

/* --- grpc --- */
static int64_t load_until;
static struct client *clients[CONNECTIONS];
static unsigned under_way;

static void call_done(struct grpc_call *c)
{
    struct client *client = c->user;
    struct str framed = c->framed;

    check(c->status.code == GRPC_OK, c->status.message);
    grpc_call_done(c);
    if (clock_mono() >= load_until) {
        if (--under_way == 0)
            loop_stop(loop);
        return;
    }
    *c = (struct grpc_call){.path = STR("/bench.Bench/Discard"), .framed = framed, .done = call_done, .user = client};
    check(grpc_call_start(client, c) == 0, "start");
}

static void grpc_load(int port, int ready)
{
    static struct grpc_call calls[CONNECTIONS * IN_FLIGHT];
    struct buf framed = BUF_INIT;
    char url[64];

    pin(1);
    snprintf(url, sizeof url, "http://127.0.0.1:%d", port);
    check(loop_new(&loop, NULL) == 0, "loop");
    check(grpc_frame(&framed, (struct str){message, MESSAGE}, COMPRESS_NONE, 0, NULL) == 0, "frame");
    load_until = clock_mono() + seconds * NS_PER_S;
    for (int i = 0; i < CONNECTIONS * IN_FLIGHT; i++) {
        struct client_options o = {.loop = loop, .url = url, .protocol = CLIENT_HTTP2};

        if (i < CONNECTIONS)
            check(client_new(&o, &clients[i], NULL) == 0, "client");
        calls[i] = (struct grpc_call){.path = STR("/bench.Bench/Discard"),
                                      .framed = buf_str(&framed),
                                      .done = call_done,
                                      .user = clients[i % CONNECTIONS]};
        under_way++;
        check(grpc_call_start(calls[i].user, &calls[i]) == 0, "start");
    }
    loop_run(loop);
}

static int64_t cpu_before, time_before;

static void nothing(void)
{
}

static double bench_grpc(void)
{
    double cpu, wall;

    n_requests = 0;
    cpu_before = clock_cpu();
    time_before = clock_mono();
    serve(grpc_load, nothing);
    cpu = (double) (clock_cpu() - cpu_before);
    wall = (double) (clock_mono() - time_before) / 1e9;
    printf("| gRPC unary, 197 kB, discarded | %.0f | %.0f | %.1f |", (double) n_requests / wall,
           (double) n_requests * MESSAGE / 1e6 / wall, cpu / 1e3 / (double) n_requests);
    return cpu / (double) n_requests;
}

/* --- idle --- */
static long rss_kb(void)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    const char *at;

    fd_read_file("/proc/self/status", 1 << 20, &b, NULL);
    at = strstr(buf_cstr(&b), "VmRSS:");
    return at ? strtol(at + 6, NULL, 10) : 0;
}

static long rss_before, rss_after;

static void note_rss(void)
{
    rss_after = rss_kb();
}

static void idle_load(int port, int ready)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0";
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t) port), .sin_addr.s_addr = htonl(0x7f000001)};
    static int fds[IDLE];

    for (int i = 0; i < IDLE; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM, 0);
        check(fds[i] >= 0 && connect(fds[i], (struct sockaddr *) &a, sizeof a) == 0, "connect");
        check(send(fds[i], preface, sizeof preface, MSG_NOSIGNAL) == sizeof preface, "send");
    }
    for (int i = 0; i < IDLE; i++) {
        char frame[9];

        check(recv(fds[i], frame, sizeof frame, MSG_WAITALL) == sizeof frame && frame[3] == 4, "settings");
    }
    check(write(ready, "x", 1) == 1, "pipe");
    pause();
}

static void bench_idle(void)
{
    struct rlimit r;

    getrlimit(RLIMIT_NOFILE, &r);
    r.rlim_cur = r.rlim_max;
    setrlimit(RLIMIT_NOFILE, &r);
    if (r.rlim_max < IDLE + 100) {
        printf("\n%d idle connections: not measured, only %lu descriptors are allowed.\n", IDLE,
               (unsigned long) r.rlim_max);
        return;
    }
    rss_before = rss_kb();
    serve(idle_load, note_rss);
    printf("\n%d idle HTTP/2 connections: %.0f MB, %.1f kB each (bar: 200 MB).\n", IDLE,
           (double) (rss_after - rss_before) / 1024, (double) (rss_after - rss_before) / IDLE);
}

int main(int argc, char **argv)
{
    double floor, cost;

    if (argc > 1)
        seconds = strtol(argv[1], NULL, 10);
    for (size_t i = 0; i < sizeof message; i++)
        message[i] = (char) (i * 2654435761u >> 13);
    setvbuf(stdout, NULL, _IONBF, 0);
    pin(0);
    printf("| server on one core | req/s | MB/s | CPU µs per request | times the floor |\n|---|---|---|---|---|\n");
    floor = bench_raw();
    cost = bench_grpc();
    printf(" %.2f |\n", cost / floor);
    bench_idle();
    return 0;
}
