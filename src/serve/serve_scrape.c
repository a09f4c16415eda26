/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds programs of this machine that serve /debug/pprof/ and scrapes those that a person chooses (server/scraping.h).
 *
 * Which ports are listened on is in /proc/net/tcp and tcp6, which every user may read; whose they are is not known to a server
 * without privileges. So each port that loopback reaches is asked for /debug/pprof/cmdline, with a request that has no Host
 * header (Redis and others log those as attacks). Only loopback addresses are connected to, and only when asked.
 *
 * Each program has a pipeline of its own, as --scrape makes it; `lock` guards the list.
 */
#include "serve/serve_scrape.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "conf/args.h"
#include "conf/yaml.h"
#include "host/scrape_config.h"
#include "net/address.h"
#include "net/http.h"
#include "pipeline/graph/flow.h"
#include "serve/serve_pipelines.h"

enum {
    PROGRAMS_MAX = 32,
    PORTS_MAX = 512,
    PROBE_MS = 500,
    PROBE_BYTES = 4096,
    TABLE_BYTES = 4 << 20,
    LISTENING = 0x0a
};

struct scraped_program {
    struct conf conf;
    struct flow *flow;
    char url[128];
};

struct serve_scrape {
    struct scraping calls;
    struct sink *sink;
    const struct arg_list *given;
    pthread_mutex_t lock;
    struct scraped_program *v[PROGRAMS_MAX] _guarded_by_(lock);
    uint32_t n _guarded_by_(lock);
};

/* --- the ports --- */

struct port_list {
    uint16_t v[PORTS_MAX];
    bool six[PORTS_MAX]; /* listens on [::1] only */
    uint32_t n;
};

static void add_port(struct port_list *l, uint16_t port, bool six)
{
    for (uint32_t i = 0; i < l->n; i++)
        if (l->v[i] == port) {
            l->six[i] &= six;
            return;
        }
    if (l->n == PORTS_MAX)
        return;
    l->six[l->n] = six;
    l->v[l->n++] = port;
}

/* A line of the table: "  0: 0100007F:1F90 00000000:0000 0A ...", addresses as words in the order of this machine. */
static void add_line(struct port_list *l, const char *line)
{
    static const char *const any[] = {"00000000", "00000000000000000000000000000000"};
    char address[33];
    unsigned port, state;

    if (sscanf(line, " %*u: %32[0-9A-F]:%4x %*[0-9A-F]:%*4x %2x", address, &port, &state) != 3 || state != LISTENING)
        return;
    if (strcmp(address, any[0]) == 0 || strcmp(address, any[1]) == 0)
        add_port(l, (uint16_t) port, false);
    else if (strlen(address) == 8 && strtoul(address, NULL, 16) == htonl(INADDR_LOOPBACK))
        add_port(l, (uint16_t) port, false);
    else if (strcmp(address, "00000000000000000000000001000000") == 0)
        add_port(l, (uint16_t) port, true);
}

static void read_ports(struct port_list *l)
{
    static const char *const tables[] = {"/proc/net/tcp", "/proc/net/tcp6"};

    for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
        _cleanup_(buf_done) struct buf b = BUF_INIT;
        char *at, *line;

        if (fd_read_file(tables[i], TABLE_BYTES, &b, NULL) < 0)
            continue; /* no IPv6, or a table that is too large */
        at = (char *) buf_cstr(&b);
        while (at && (line = strsep(&at, "\n")))
            add_line(l, line);
    }
}

/* --- asking a port --- */

static bool wait_ready(int fd, short events, int64_t until)
{
    struct pollfd p = {fd, events, 0};
    int64_t left = (until - clock_mono()) / NS_PER_MS;

    return left > 0 && poll(&p, 1, (int) left) > 0;
}

/* Reads the answer to its end, at most PROBE_BYTES - 1 of it. Returns its length. */
static size_t ask(uint16_t port, bool six, char answer[PROBE_BYTES])
{
    static const char request[] = "GET /debug/pprof/cmdline HTTP/1.0\r\n\r\n";
    struct address_parts parts = {0};
    struct address a;
    int64_t until = clock_mono() + PROBE_MS * NS_PER_MS;
    size_t n = 0;
    int fd = -1, r;

    snprintf(parts.host, sizeof parts.host, "%s", six ? "::1" : "127.0.0.1");
    snprintf(parts.port, sizeof parts.port, "%u", (unsigned) port);
    r = address_numeric(&parts, &a);
    if (r == 0)
        r = address_connect(&a, &fd, NULL);
    if (r > 0)
        r = wait_ready(fd, POLLOUT, until) ? address_connect_result(fd) : -ETIMEDOUT;
    if (r == 0)
        r = fd_write_all(fd, request, sizeof request - 1);
    while (r == 0 && n < PROBE_BYTES - 1 && wait_ready(fd, POLLIN, until)) {
        ssize_t got = fd_read(fd, answer + n, PROBE_BYTES - 1 - n);

        if (got <= 0)
            break;
        n += (size_t) got;
    }
    fd_close(fd);
    answer[n] = 0;
    return r < 0 ? 0 : n;
}

static bool is_scraped(struct serve_scrape *s, const char *url)
{
    struct str base = scrape_config_base(url);
    bool found = false;

    for (size_t i = 0; i < s->given->n; i++)
        found |= str_eq(scrape_config_base(s->given->v[i]), base);
    pthread_mutex_lock(&s->lock);
    for (uint32_t i = 0; i < s->n; i++)
        found |= strcmp(s->v[i]->url, url) == 0;
    pthread_mutex_unlock(&s->lock);
    return found;
}

static int find(void *ctx, struct buf *out, struct err *e)
{
    struct serve_scrape *s = ctx;
    struct port_list *ports = mem_zalloc(sizeof *ports);
    bool first = true;

    (void) e;
    if (!ports)
        return -ENOMEM;
    read_ports(ports);
    buf_puts(out, "[");
    for (uint32_t i = 0; i < ports->n; i++) {
        char answer[PROBE_BYTES], url[64];
        struct str program = scrape_config_program(answer, ask(ports->v[i], ports->six[i], answer));

        if (!program.n || str_is(program, "wick"))
            continue;
        snprintf(url, sizeof url, "http://%s:%u", ports->six[i] ? "[::1]" : "localhost", (unsigned) ports->v[i]);
        json_sep(out, &first);
        buf_puts(out, "{\"url\":");
        json_put_str(out, str_from(url));
        buf_puts(out, ",\"program\":");
        json_put_str(out, program);
        buf_printf(out, ",\"scraped\":%s}", is_scraped(s, url) ? "true" : "false");
    }
    buf_puts(out, "]");
    mem_free(ports);
    return buf_error(out);
}

/* --- scraping --- */

static void program_free(struct scraped_program *p)
{
    if (!p)
        return;
    serve_pipelines_stop(p->flow);
    conf_done(&p->conf);
    mem_free(p);
}

/* Only programs of this machine: the server must not be made to send requests elsewhere. */
static int check_loopback(const char *text, struct err *e)
{
    struct address_parts parts = {0};
    struct http_url url;
    struct address a;
    int r = http_url_parse(text, &url, e);

    if (r < 0)
        return r;
    snprintf(parts.host, sizeof parts.host, "%s", url.host);
    snprintf(parts.port, sizeof parts.port, "%s", url.port);
    if (strcmp(url.host, "localhost") == 0 || (address_numeric(&parts, &a) == 0 && address_is_loopback(&a)))
        return 0;
    return err_set(e, -EINVAL, "'%s' is not on this machine; start wick serve with --scrape for it", url.host);
}

static int start_program(struct serve_scrape *s, const char *url, struct err *e) _locked_(s->lock)
{
    struct scraped_program *p = mem_zalloc(sizeof *p);
    struct arg_list urls = {.v = {url}, .n = 1};
    int r;

    if (!p)
        return -ENOMEM;
    conf_init(&p->conf);
    snprintf(p->url, sizeof p->url, "%s", url);
    r = scrape_config_add(&p->conf, &urls, "sink", e);
    if (r == 0)
        r = serve_pipelines_start(&p->conf, &(struct flow_inject){.sink = s->sink}, &p->flow, e);
    if (r < 0) {
        program_free(p);
        return r;
    }
    log_info("scraping %s until the server stops; wick serve --scrape %s makes it permanent", url, url);
    s->v[s->n++] = p;
    return 0;
}

static int add(void *ctx, const char *url, struct err *e)
{
    struct serve_scrape *s = ctx;
    int r = strlen(url) < sizeof s->v[0]->url ? check_loopback(url, e) : err_set(e, -EINVAL, "the URL is too long");

    if (r < 0 || is_scraped(s, url))
        return r;
    pthread_mutex_lock(&s->lock);
    r = s->n < PROGRAMS_MAX ? start_program(s, url, e)
                            : err_set(e, -EINVAL, "%d programs are scraped already", PROGRAMS_MAX);
    pthread_mutex_unlock(&s->lock);
    return r;
}

int serve_scrape_new(struct sink *sink, const struct arg_list *given, struct serve_scrape **ret)
{
    struct serve_scrape *s = mem_zalloc(sizeof *s);

    if (!s)
        return -ENOMEM;
    *s = (struct serve_scrape){.calls = {find, add, s}, .sink = sink, .given = given};
    pthread_mutex_init(&s->lock, NULL);
    *ret = s;
    return 0;
}

const struct scraping *serve_scrape_calls(const struct serve_scrape *s)
{
    return s ? &s->calls : NULL;
}

_unshared_ void serve_scrape_free(struct serve_scrape *s)
{
    if (!s)
        return;
    for (uint32_t i = 0; i < s->n; i++)
        program_free(s->v[i]);
    pthread_mutex_destroy(&s->lock);
    mem_free(s);
}
