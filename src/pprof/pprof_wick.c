/* SPDX-License-Identifier: Apache-2.0 */
/* Turns wick:// URLs into URLs of the server's API (pprof_wick.h). */
#include "pprof/pprof_wick.h"

#include "base/arena.h"
#include "model/labels.h"
#include "net/http.h"

static bool handed_on(struct str key)
{
    return str_is(key, "from") || str_is(key, "to") || str_is(key, "trace_id") || str_is(key, "span_id") ||
           str_is(key, "profile");
}

/* Builds type{service.name="…",label="…"} from the path and the query, and the parameters that are passed on
 * unchanged. */
static void read_query(struct arena *a, struct str service, struct str query, struct buf *selector, struct buf *rest)
{
    struct str type = STR("cpu");
    struct buf labels = BUF_INIT;

    if (service.n) {
        buf_puts(&labels, "service.name=");
        selector_put_quoted(&labels, service);
    }
    while (query.n) {
        struct str value = str_cut(&query, '&'), key = http_percent_decode(a, str_cut(&value, '='), true);

        value = http_percent_decode(a, value, true);
        if (!key.n)
            continue;
        if (str_is(key, "type")) {
            type = value;
        } else if (handed_on(key)) {
            buf_printf(rest, "&%.*s=", STR_FMT(key));
            http_percent_encode(rest, value);
        } else {
            buf_printf(&labels, "%s%.*s=", labels.n ? "," : "", STR_FMT(key));
            selector_put_quoted(&labels, value);
        }
    }
    buf_printf(selector, "%.*s{%.*s}", STR_FMT(type), STR_FMT(buf_str(&labels)));
    buf_done(&labels);
}

bool pprof_wick_url(struct str source, struct buf *out)
{
    bool tls = str_starts(source, STR("wicks://"));
    _cleanup_(buf_done) struct buf selector = BUF_INIT, rest = BUF_INIT;
    struct str host, service;
    struct arena a;

    if (!tls && !str_starts(source, STR("wick://")))
        return false;
    source = str_slice(source, tls ? 8 : 7, source.n);
    arena_init(&a, 1 << 20);
    service = str_cut(&source, '?');
    host = str_cut(&service, '/');
    read_query(&a, http_percent_decode(&a, service, false), source, &selector, &rest);
    buf_puts(out, tls ? "https://" : "http://");
    buf_put_str(out, host.n ? host : STR("localhost"));
    if (str_find_char(host, ':') < 0)
        buf_puts(out, ":4040");
    buf_puts(out, "/api/v1/profile?query=");
    http_percent_encode(out, buf_str(&selector));
    buf_put_str(out, buf_str(&rest));
    arena_done(&a);
    return true;
}
