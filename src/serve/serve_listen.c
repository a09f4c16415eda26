/* SPDX-License-Identifier: Apache-2.0 */
/* The addresses that the server listens on, the check of their exposure, and their metrics. See serve_state.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metric_text.h"
#include "net/address.h"
#include "net/server.h"
#include "net/tls.h"
#include "serve/serve_intake.h"
#include "serve/serve_state.h"
#include "server/front.h"

enum { PORT_TRIES = 20 };
#define STOP_GRACE (500 * NS_PER_MS)

static bool is_off(const char *address)
{
    return !address || !address[0] || strcmp(address, "off") == 0;
}

/* Returns 1 if every address that the text resolves to can be reached from this machine only. */
static int is_loopback(const char *text, struct err *e)
{
    struct address all[8];
    struct address_parts parts;
    int n, r = address_split(text, NULL, &parts, e);

    if (r < 0)
        return r;
    n = address_resolve(&parts, all, ARRAY_SIZE(all), e);
    for (int i = 0; i < n; i++)
        if (!address_is_loopback(&all[i]))
            return 0;
    return n < 0 ? n : 1;
}

/* Listening beyond loopback requires TLS and tokens, or --insecure. */
int serve_check_exposure(const struct serve *s, struct err *e)
{
    const char *const addresses[] = {s->config.listen.http, s->config.listen.otlp_grpc, s->config.listen.otlp_http};

    for (size_t i = 0; i < ARRAY_SIZE(addresses); i++) {
        int r = is_off(addresses[i]) ? 1 : is_loopback(addresses[i], e);

        if (r < 0)
            return r;
        if (r || s->config.listen.insecure)
            continue;
        if (!s->config.listen.tls.present)
            return err_set(e, -EPERM, "%s is not a loopback address: set listen.tls, or use --insecure", addresses[i]);
        if (s->auth && !auth_required(s->auth)) /* a check of the configuration does not read the tokens */
            return err_set(e, -EPERM,
                           "%s is not a loopback address: create a token with 'wick token create', or use --insecure",
                           addresses[i]);
    }
    return 0;
}

int serve_start_tls(struct serve *s, struct err *e)
{
    const struct serve_tls *t = &s->config.listen.tls;
    struct tls_options o = {.cert_file = t->cert_file,
                            .key_file = t->key_file,
                            .ca_file = t->client_ca_file,
                            .require_client_cert = t->client_ca_file != NULL,
                            .http2 = true,
                            .http1 = true};

    return t->present ? tls_openssl.context_new(&o, true, &s->tls, e) : 0;
}

size_t serve_answers_memory(const struct serve *s)
{
    return MIN((size_t) 512 << 20, s->memory_limit / 4);
}

static int new_server(struct serve *s, bool (*begin)(void *, struct http_request *),
                      void (*handle)(void *, struct http_request *), void *arg, struct http_server **ret, struct err *e)
{
    struct loop *loops[64];
    struct http_server_options o = {
        .loops = loops, .tls = s->tls, .arg = arg, .begin = begin, .handle = handle, .identify_peers = true};

    for (unsigned i = 0; i < loop_group_size(s->loops) && i < ARRAY_SIZE(loops); i++)
        loops[o.n_loops++] = loop_group_at(s->loops, i);
    o.max_body = (size_t) s->config.limits.request;
    o.max_buffered = MIN((size_t) 512 << 20, MAX(s->memory_limit / 4, o.max_body));
    o.max_answers = serve_answers_memory(s);
    return http_server_new(&o, ret, e);
}

/* The address with the port that is really bound: port 0 asks for any. */
static const char *bound_address(const char *asked, int port, char *out, size_t size)
{
    const char *colon = strrchr(asked, ':');

    if (port > 0 && colon)
        snprintf(out, size, "%.*s:%d", (int) (colon - asked), asked, port);
    else
        snprintf(out, size, "%s", asked);
    return out;
}

/* Listens for the API, on the next free port if the requested one is in use. */
static int listen_api(struct serve *s, char *ret_address, size_t size, struct err *e)
{
    const char *asked = s->config.listen.http, *colon = strrchr(asked, ':');
    struct err first = {0};
    uint64_t port;
    int r, got;

    snprintf(ret_address, size, "%s", asked);
    r = http_server_listen(s->api, asked, &got, &first);
    if (r == 0 || r != -EADDRINUSE || !colon || str_to_u64(str_from(colon + 1), 10, &port) < 0) {
        *e = first;
        if (r == 0)
            bound_address(asked, got, ret_address, size);
        return r;
    }
    for (int i = 1; r == -EADDRINUSE && i < PORT_TRIES; i++) {
        snprintf(ret_address, size, "%.*s:%u", (int) (colon - asked), asked, (unsigned) port + (unsigned) i);
        r = http_server_listen(s->api, ret_address, &got, e);
    }
    if (r == 0)
        log_warn("%s; the API uses %s instead", first.message, ret_address);
    return r;
}

/* Listens for OTLP. If the port is in use, OTLP is off, and a message is logged. */
static const char *listen_otlp(struct serve *s, struct http_server *server, const char *name, const char *address,
                               char *bound, size_t size)
{
    struct err e = {0};
    int port = 0;

    if (is_off(address))
        return NULL;
    if (http_server_listen(server, address, &port, &e) < 0) {
        log_warn("%s is off: %s", name, e.message);
        snprintf(s->otlp_note, sizeof s->otlp_note, "%s is off: %s", name, e.message);
        s->ui.otlp_note = s->otlp_note;
        return NULL;
    }
    log_info("%s: listening on %s", name, bound_address(address, port, bound, size));
    return bound;
}

int serve_start_listeners(struct serve *s, struct err *e)
{
    const struct serve_listen *l = &s->config.listen;
    int r;

    r = new_server(s, front_begin, front_handle, s->front, &s->api, e);
    if (r == 0)
        r = new_server(s, serve_intake_begin, serve_intake_grpc, s->intake, &s->grpc, e);
    if (r == 0)
        r = new_server(s, serve_intake_begin, serve_intake_http, s->intake, &s->http, e);
    if (r < 0)
        return r;
    s->ui.otlp_grpc = listen_otlp(s, s->grpc, "OTLP/gRPC", l->otlp_grpc, s->otlp_grpc, sizeof s->otlp_grpc);
    s->ui.otlp_http = listen_otlp(s, s->http, "OTLP/HTTP", l->otlp_http, s->otlp_http, sizeof s->otlp_http);
    return listen_api(s, s->address, sizeof s->address, e); /* last, because it reports the state of the others */
}

static void stop_server(struct http_server *h)
{
    if (!h)
        return;
    http_server_stop_wait(h, STOP_GRACE);
    http_server_free(h);
}

void serve_stop_listeners(struct serve *s)
{
    stop_server(s->grpc);
    stop_server(s->http);
    stop_server(s->api);
    s->grpc = s->http = s->api = NULL;
}

/* Ports below 1024 need a capability. */
bool serve_has_low_port(const struct serve_config *c)
{
    const char *const addresses[] = {c->listen.http, c->listen.otlp_grpc, c->listen.otlp_http};

    for (size_t i = 0; i < ARRAY_SIZE(addresses); i++) {
        const char *colon = is_off(addresses[i]) ? NULL : strrchr(addresses[i], ':');
        uint64_t port;

        if (colon && str_to_u64(str_from(colon + 1), 10, &port) >= 0 && port && port < 1024)
            return true;
    }
    return false;
}

/* Writes one metric for each listener. */
static void put_net(const struct serve *s, struct buf *out, const char *name, enum metric_kind kind, const char *help,
                    size_t offset)
{
    const struct {
        const char *name;
        struct http_server *server;
    } all[] = {{"http", s->api}, {"otlp_grpc", s->grpc}, {"otlp_http", s->http}};

    metric_head(out, name, kind, help);
    for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
        struct http_server_stats st;
        char label[32];

        if (!all[i].server)
            continue;
        http_server_stats(all[i].server, &st);
        snprintf(label, sizeof label, "listener=\"%s\"", all[i].name);
        metric_value(out, name, label, (double) *(const uint64_t *) ((const char *) &st + offset));
    }
}

#define NET(f) offsetof(struct http_server_stats, f)

void serve_listen_metrics(const struct serve *s, struct buf *out)
{
    put_net(s, out, "wick_net_connections", METRIC_GAUGE, "Open connections.", NET(connections));
    put_net(s, out, "wick_net_requests_total", METRIC_COUNTER, "Requests.", NET(requests));
    put_net(s, out, "wick_net_bad_requests_total", METRIC_COUNTER, "Malformed requests.", NET(bad_requests));
    put_net(s, out, "wick_net_timeouts_total", METRIC_COUNTER, "Connections closed because the peer was too slow.",
            NET(timeouts));
    put_net(s, out, "wick_net_refused_total", METRIC_COUNTER, "Connections refused because of the limit.",
            NET(refused));
    put_net(s, out, "wick_net_received_bytes_total", METRIC_COUNTER, "Bytes received.", NET(bytes_in));
    put_net(s, out, "wick_net_sent_bytes_total", METRIC_COUNTER, "Bytes sent.", NET(bytes_out));
    put_net(s, out, "wick_net_buffered_bytes", METRIC_GAUGE, "Requests in memory.", NET(buffered));
    put_net(s, out, "wick_net_answers_bytes", METRIC_GAUGE, "Responses in memory that were not read yet.",
            NET(answers));
    put_net(s, out, "wick_net_unread_total", METRIC_COUNTER,
            "Responses dropped or refused because too much was waiting to be read.", NET(unread));
}
