/* SPDX-License-Identifier: Apache-2.0 */
/* Peers that are wrong, slow or hostile, by hand: the server ends them, serves their neighbours and keeps nothing. */
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net_pair.h"

static int raw(const char *bytes, size_t n)
{
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t) port), .sin_addr.s_addr = htonl(0x7f000001)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ok(connect(fd, (struct sockaddr *) &a, sizeof a) == 0);
    ok(send(fd, bytes, n, MSG_NOSIGNAL) == (ssize_t) n);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

/* Runs the server until the peer is closed or has sent `want`; what it sent is in out. True when it closed. */
static bool hear(int fd, char *out, size_t size, const char *want)
{
    int64_t until = clock_mono() + 5 * NS_PER_S;
    size_t n = 0;

    while (clock_mono() < until) {
        ssize_t r;

        loop_run_once(loop, 5 * NS_PER_MS);
        r = recv(fd, out + n, size - 1 - n, 0);
        if (r == 0 || (r < 0 && errno != EAGAIN))
            return true;
        n += r > 0 ? (size_t) r : 0;
        out[n] = 0;
        if (want && strstr(out, want))
            return false;
    }
    tap_fail("timed out; got: %s", out);
    return false;
}

static void test_bad_requests(void)
{
    static const struct {
        const char *request, *answer;
    } table[] = {
        {"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
         "HTTP/1.1 400"},
        {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "HTTP/1.1 400"},
        {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", "HTTP/1.1 501"},
        {"GET / HTTP/3.0\r\nHost: x\r\n\r\n", "HTTP/1.1 505"},
        {"\x16\x03\x01\x02\x01\x01\xfc\r\n\r\n", "HTTP/1.1 400"}, /* TLS to a plain port */
        {"GET noslash HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 400"},
        {"POST /small HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\nExpect: 100-continue\r\n\r\n", "HTTP/1.1 413"},
    };

    start_server(NULL);
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        char out[2048] = "";
        int fd = raw(table[i].request, strlen(table[i].request));

        ok(hear(fd, out, sizeof out, NULL)); /* and the connection ends */
        if (strncmp(out, table[i].answer, strlen(table[i].answer)) != 0)
            tap_fail("%s answered with: %s", table[i].request, out);
        close(fd);
    }
    stop_server();
}

static void test_pipelining(void)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    char *out = mem_alloc(1 << 20);
    unsigned answers = 0;
    int fd;

    for (int i = 0; i < 500; i++)
        buf_printf(&b, "GET /n%d HTTP/1.1\r\nHost: x\r\n%s\r\n", i, i == 499 ? "Connection: close\r\n" : "");
    start_server(NULL);
    fd = raw(b.p, b.n);
    ok(hear(fd, out, 1 << 20, NULL));
    for (const char *p = out; (p = strstr(p, "HTTP/1.1 200")); p++)
        answers++;
    eq_int(answers, 500);
    ok(strstr(out, "/n499"));
    close(fd);
    stop_server();
    mem_free(out);
}

static void test_slowloris(void)
{
    struct http_server_options o = {
        .head_timeout_ns = 60 * NS_PER_MS, .body_timeout_ns = 60 * NS_PER_MS, .idle_timeout_ns = 200 * NS_PER_MS};
    char head[1024] = "", body[1024] = "", idle[64] = "", h2[64] = "";
    struct http_server_stats st;
    int a, b, c, d;

    start_server(&o);
    a = raw("GET / HTTP/1.1\r\nHo", 18);
    b = raw("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab", 49);
    c = raw("", 0);
    d = raw("PRI * HT", 8);
    ok(hear(a, head, sizeof head, NULL));
    ok(strncmp(head, "HTTP/1.1 408", 12) == 0);
    ok(hear(b, body, sizeof body, NULL));
    ok(strncmp(body, "HTTP/1.1 408", 12) == 0);
    ok(hear(c, idle, sizeof idle, NULL));
    ok(hear(d, h2, sizeof h2, NULL));
    http_server_stats(server, &st);
    ok(st.timeouts >= 2);
    close(a);
    close(b);
    close(c);
    close(d);
    stop_server();
}

static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0"; /* and an empty SETTINGS */

/* Floods a fresh HTTP/2 connection with one frame, over and over; the server must end it. */
static void flood(const char *frame, size_t n, int count, bool counted)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    int64_t until = clock_mono() + 5 * NS_PER_S;
    struct http_server_stats st;
    size_t sent = 0;
    bool closed = false;
    int fd;

    buf_put(&b, preface, sizeof preface);
    for (int i = 0; i < count; i++)
        buf_put(&b, frame, n);
    start_server(NULL);
    fd = raw("", 0);
    while (!closed && clock_mono() < until) {
        ssize_t r = sent < b.n ? send(fd, b.p + sent, b.n - sent, MSG_NOSIGNAL) : 0;
        char answer[4096];

        closed = r < 0 && errno != EAGAIN;
        sent += r > 0 ? (size_t) r : 0;
        loop_run_once(loop, NS_PER_MS);
        do
            r = recv(fd, answer, sizeof answer, 0);
        while (r > 0);
        closed = closed || r == 0 || errno != EAGAIN;
    }
    ok(closed);
    http_server_stats(server, &st);
    ok(!counted || st.floods == 1);
    close(fd);
    stop_server();
}

static void test_floods(void)
{
    flood("\0\0\10\6\0\0\0\0\0ABCDEFGH", 17, 20000, true);  /* PING */
    flood("\0\0\0\4\0\0\0\0\0", 9, 20000, false);           /* SETTINGS */
    flood("\0\0\5\2\0\0\0\0\1\0\0\0\0\0", 14, 20000, true); /* PRIORITY */
    flood("\0\0\1\11\0\0\0\0\1x", 10, 20000, false);        /* CONTINUATION without a head */
}

/* HEADERS and RST_STREAM at once, on ever new streams. */
static void test_rapid_reset(void)
{
    static const char head[] = {(char) 0x83, (char) 0x86, (char) 0x84, 0x41, 1, 'x'}; /* POST http / x */
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    struct http_server_stats st;
    char out[65536];
    int fd;

    for (uint32_t i = 0; i < 3000; i++) {
        uint32_t id = 2 * i + 1;
        char h[9] = {0, 0, sizeof head, 1, 4, 0, (char) (id >> 16), (char) (id >> 8), (char) id};
        char r[13] = {0, 0, 4, 3, 0, 0, (char) (id >> 16), (char) (id >> 8), (char) id, 0, 0, 0, 8};

        buf_put(&b, h, sizeof h);
        buf_put(&b, head, sizeof head);
        buf_put(&b, r, sizeof r);
    }
    start_server(NULL);
    fd = raw(preface, sizeof preface);
    ok(send(fd, b.p, b.n, MSG_NOSIGNAL) > 0);
    ok(hear(fd, out, sizeof out, NULL));
    http_server_stats(server, &st);
    ok(st.requests < 1500);
    close(fd);
    stop_server();
}

/* A header of 4 KiB into the dynamic table, then thousands of one-byte references to it. */
static void test_hpack_bomb(void)
{
    _cleanup_(buf_done) struct buf block = BUF_INIT, b = BUF_INIT;
    struct client_request r = {0};
    struct client *c;
    char out[65536];
    int fd;

    buf_put(&block, "\x82\x86\x84\x41\1x", 6);
    buf_put(&block, "\x40\1a\x7f\xc1\x1e", 6); /* a: 4032 bytes */
    buf_pad(&block, 'v', 4032);
    buf_pad(&block, (char) (0x80 | 62), 12000);
    buf_put(&b, preface, sizeof preface);
    buf_printf(&b, "%c%c%c\1\5%c%c%c\1", 0, (int) (block.n >> 8), (int) (block.n & 255), 0, 0, 0);
    buf_put(&b, block.p, block.n);
    start_server(NULL);
    fd = raw(b.p, b.n);
    c = new_client(CLIENT_HTTP2);
    get(c, &r, "/x"); /* a neighbour is served */
    run_until(1);
    eq_int(r.status, 200);
    client_request_done(&r);
    client_free(c);
    recv(fd, out, sizeof out, 0);
    eq_int(n_released, 1); /* the bomb reached no handler */
    close(fd);
    stop_server();
}

/* A peer that asks for an answer and grants no window for it: the answer is given up, not kept for ever. */
static void test_zero_window(void)
{
    static const char request[] =
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\6\4\0\0\0\0\0\0\4\0\0\0\0" /* INITIAL_WINDOW_SIZE 0 */
        "\0\0\6\1\5\0\0\0\1\x82\x86\x84\x41\1x";                         /* GET / */
    struct http_server_options o = {.write_timeout_ns = 50 * NS_PER_MS, .head_timeout_ns = 50 * NS_PER_MS};
    int64_t until = clock_mono() + 5 * NS_PER_S;
    struct http_server_stats st;
    int fd;

    start_server(&o);
    fd = raw(request, sizeof request - 1);
    while (n_released < 1 && clock_mono() < until)
        loop_run_once(loop, 10 * NS_PER_MS);
    eq_int(n_released, 1);
    http_server_stats(server, &st);
    eq_int(st.timeouts, 1);
    eq_int(st.connections, 1); /* the stream went, not the connection */
    close(fd);
    stop_server();
}

static void test_connection_limit(void)
{
    struct http_server_options o = {.max_connections = 3};
    int fd[5];
    struct http_server_stats st;

    start_server(&o);
    for (int i = 0; i < 5; i++)
        fd[i] = raw("", 0);
    for (int i = 0; i < 10; i++)
        loop_run_once(loop, NS_PER_MS);
    http_server_stats(server, &st);
    eq_int(st.connections, 3);
    eq_int(st.refused, 2);
    for (int i = 0; i < 5; i++)
        close(fd[i]);
    stop_server();
}

/* One address has a share of the connections and of the memory; what it leaves is free again. */
static void test_peer_share(void)
{
    struct http_server_options o = {.max_peer_connections = 2, .max_peer_buffered = 4096};
    char out[1024] = "";
    struct http_server_stats st;
    int fd[4];

    start_server(&o);
    for (int i = 0; i < 4; i++)
        fd[i] = raw("", 0);
    for (int i = 0; i < 10; i++)
        loop_run_once(loop, NS_PER_MS);
    http_server_stats(server, &st);
    eq_int(st.connections, 2);
    eq_int(st.refused, 2);
    for (int i = 0; i < 4; i++)
        close(fd[i]);
    for (int i = 0; i < 10; i++)
        loop_run_once(loop, NS_PER_MS);
    fd[0] = raw("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 8000\r\n\r\n", 51);
    for (int i = 0; i < 50; i++)
        if (send(fd[0],
                 "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789",
                 100, MSG_NOSIGNAL) < 0)
            break;
    hear(fd[0], out, sizeof out, "HTTP/1.1 503");
    ok(strncmp(out, "HTTP/1.1 503", 12) == 0);
    close(fd[0]);
    stop_server();
}

/* A body that drips steadily enough for the minimum rate still ends at the absolute deadline. */
static void test_body_deadline(void)
{
    struct http_server_options o = {.head_timeout_ns = 50 * NS_PER_MS,
                                    .body_timeout_ns = 10 * NS_PER_S,
                                    .body_deadline_ns = 200 * NS_PER_MS,
                                    .min_rate = 1};
    int64_t until = clock_mono() + 5 * NS_PER_S;
    char out[1024] = "";
    int fd;

    start_server(&o);
    fd = raw("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 80000\r\n\r\n", 52);
    while (!out[0] && clock_mono() < until) {
        send(fd, "x", 1, MSG_NOSIGNAL);
        loop_run_once(loop, 10 * NS_PER_MS);
        recv(fd, out, sizeof out - 1, 0);
    }
    ok(strncmp(out, "HTTP/1.1 408", 12) == 0);
    close(fd);
    stop_server();
}

int main(void)
{
    tap_run(test_bad_requests);
    tap_run(test_pipelining);
    tap_run(test_slowloris);
    tap_run(test_floods);
    tap_run(test_rapid_reset);
    tap_run(test_hpack_bomb);
    tap_run(test_zero_window);
    tap_run(test_connection_limit);
    tap_run(test_peer_share);
    tap_run(test_body_deadline);
    return tap_done();
}
