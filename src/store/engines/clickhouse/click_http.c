/* SPDX-License-Identifier: Apache-2.0 */
/* Sends SQL and data to ClickHouse; see click_http.h. */
#include "store/engines/clickhouse/click_http.h"

#include <errno.h>
#include <string.h>

#include "base/base64.h"
#include "base/clock.h"
#include "net/fetch.h"

enum { ANSWER_MAX = 1 << 30, MESSAGE_MAX = 400 };

static int make_authorization(const char *user, struct str password, struct buf *ret)
{
    _cleanup_(buf_done) struct buf pair = BUF_INIT;

    buf_printf(&pair, "%s:%.*s", user, STR_FMT(password));
    buf_puts(ret, "Basic ");
    base64_encode(ret, pair.p, pair.n);
    return buf_error(&pair) ? buf_error(&pair) : buf_error(ret);
}

int click_http_init(struct click_http *h, const char *place, struct err *e)
{
    int r;

    *h = (struct click_http){.lock = PTHREAD_MUTEX_INITIALIZER};
    r = click_url_parse(place, &h->url, e);
    if (r < 0)
        return r;
    r = make_authorization(h->url.user, str_from(h->url.password), &h->authorization);
    return r < 0 ? err_set(e, r, "out of memory") : 0;
}

void click_http_done(struct click_http *h)
{
    buf_done(&h->authorization);
    click_url_done(&h->url);
}

/* After a server refused what `used` says: true if there is another password now. */
static bool reread_password(struct click_http *h, struct str used)
{
    _cleanup_(buf_done) struct buf password = BUF_INIT, made = BUF_INIT;
    bool other;

    if (!h->url.password_file || click_password_read(h->url.password_file, &password, NULL) < 0 ||
        make_authorization(h->url.user, buf_str(&password), &made) < 0)
        return false;
    other = !str_eq(buf_str(&made), used);
    pthread_mutex_lock(&h->lock);
    if (other) {
        struct buf old = h->authorization;

        h->authorization = made;
        made = old;
    }
    pthread_mutex_unlock(&h->lock);
    return other;
}

void click_http_stop(struct click_http *h)
{
    int64_t none = 0, now = clock_mono();

    if (atomic_compare_exchange_strong(&h->stop_since, &none, now))
        atomic_store(&h->stop_at, now + CLICK_CLOSE_NS);
}

void click_http_moved(struct click_http *h)
{
    if (atomic_load(&h->stop_at) && !click_http_stopped(h))
        atomic_store(&h->stop_at, MIN(clock_mono() + CLICK_CLOSE_NS, atomic_load(&h->stop_since) + CLICK_CLOSE_MAX_NS));
}

bool click_http_stopped(const struct click_http *h)
{
    int64_t at = atomic_load(&h->stop_at);

    return (at && clock_mono() >= at) || (h->ending && h->ending());
}

static bool goes_on(void *http, uint64_t done, uint64_t total)
{
    (void) done;
    (void) total;
    return !click_http_stopped(http);
}

void click_put_text(struct buf *sql, struct str s)
{
    buf_putc(sql, '\'');
    for (uint32_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char) s.p[i];

        if (c < 0x20 || c == '\'' || c == '\\' || c >= 0x7f)
            buf_printf(sql, "\\x%02x", c);
        else
            buf_putc(sql, (char) c);
    }
    buf_putc(sql, '\'');
}

/* The server's error message, in one line: "Code: 60, e.displayText() = DB::Exception: Table wick.x doesn't exist". */
static int server_error(const char *host, int status, struct buf *body, struct click_call *call, struct err *e)
{
    struct str text = str_trim(buf_str(body)), number;
    uint64_t code = 0;

    text = str_cut(&text, '\n');
    if (str_starts(text, STR("Code: "))) {
        number = str_slice(text, 6, text.n);
        for (uint32_t i = 0; i < number.n && number.p[i] >= '0' && number.p[i] <= '9' && code < 100000; i++)
            code = code * 10 + (uint64_t) (number.p[i] - '0');
    }
    call->code = (int) code;
    if (status == 401 || status == 403 || code == 192 || code == 193 || code == 516)
        return err_set(e, -EACCES, "ClickHouse at %s refused the user name or the password", host);
    return err_set(e, -EREMOTEIO, "ClickHouse at %s answered %d: %.*s", host, status, (int) MIN(text.n, MESSAGE_MAX),
                   text.p ? text.p : "");
}

/* The same for all hosts. */
struct sending {
    struct click_http *h;
    const char *target;
    struct str body;
    struct click_call *call;
    struct buf *ret;
    struct buf authorization; /* what this request uses: another thread may change that of all */
};

static int send_to(const struct sending *x, const char *host, struct err *e)
{
    struct click_http *h = x->h;
    struct click_call *call = x->call;
    struct buf *ret = x->ret;
    struct http_header headers[] = {{STR("authorization"), buf_str(&x->authorization)}};
    struct tls_options tls = {.ca_file = h->url.ca, .insecure_skip_verify = h->url.insecure, .http1 = true};
    struct fetch_options o = {.url = host,
                              .target = x->target,
                              .method = "POST",
                              .headers = headers,
                              .n_headers = ARRAY_SIZE(headers),
                              .body = x->body,
                              .timeout_ns = h->url.timeout_ns,
                              .max_answer = call->max_answer ? call->max_answer : ANSWER_MAX,
                              .tls = &tls_openssl,
                              .tls_options = &tls,
                              .cancel = call->cancel,
                              .progress = goes_on,
                              .arg = h};
    struct fetch_result result;
    int r;

    if (click_http_stopped(h))
        return err_set(e, -ECANCELED, "the server is stopping");
    r = fetch_url(&o, &result, e);
    if (r == -ECANCELED && click_http_stopped(h))
        r = err_set(e, -ECANCELED, "the server is stopping, and ClickHouse at %s has not answered", host);
    else if (r == -EFBIG)
        r = err_set(e, -E2BIG, "the answer of ClickHouse has more than %zu bytes; choose a shorter time range",
                    o.max_answer);
    else if (r < 0 && r != -ECANCELED)
        r = err_prefix(e, r, "ClickHouse at %s: ", host);
    else if (r == 0 && result.status != 200)
        r = server_error(host, result.status, &result.body, call, e);
    else if (r == 0 && ret)
        buf_put_buf(ret, &result.body);
    fetch_result_done(&result);
    return r < 0 ? r : ret ? buf_error(ret) : 0;
}

static int make_target(const struct click_http *h, const struct click_call *call, struct str sql, struct buf *ret)
{
    buf_puts(ret, "/?wait_end_of_query=1&buffer_size=16777216&max_query_size=268435456&max_ast_elements=10000000&"
                  "max_expanded_ast_elements=10000000");
    if (!call->no_database)
        buf_printf(ret, "&database=%s", h->url.database);
    if (call->settings && *call->settings)
        buf_printf(ret, "&%s", call->settings);
    if (call->data.n) {
        buf_puts(ret, "&query=");
        http_percent_encode(ret, sql);
    }
    return buf_cstr(ret) ? 0 : -ENOMEM;
}

/* True if another host may do better. */
static bool is_about_host(int r, int code)
{
    return r != -E2BIG && r != -ECANCELED && r != -ENOMEM && (r != -EREMOTEIO || code == 210 || code == 279 || !code);
}

static int send_to_hosts(struct sending *x, struct err *e)
{
    struct click_http *h = x->h;
    struct click_call *call = x->call;
    uint32_t first = atomic_load(&h->current);
    int r = 0;

    buf_reset(&x->authorization);
    pthread_mutex_lock(&h->lock);
    buf_put_buf(&x->authorization, &h->authorization);
    pthread_mutex_unlock(&h->lock);
    if (buf_error(&x->authorization))
        return err_set(e, -ENOMEM, "out of memory");
    if (call->host)
        return send_to(x, call->host, e);
    for (uint32_t i = 0; i < h->url.n_hosts; i++) {
        uint32_t host = (first + i) % h->url.n_hosts;

        call->code = 0;
        r = send_to(x, h->url.hosts[host], e);
        if (r >= 0) {
            if (i)
                atomic_store(&h->current, host);
            return r;
        }
        if (!is_about_host(r, call->code))
            break;
    }
    return r;
}

static int send_to_any(struct click_http *h, struct str sql, struct click_call *call, struct buf *ret, struct err *e)
{
    _cleanup_(buf_done) struct buf target = BUF_INIT;
    struct sending x = {h, NULL, call->data.n ? call->data : sql, call, ret, BUF_INIT};
    int r = make_target(h, call, sql, &target);

    if (r < 0)
        return err_set(e, r, "out of memory");
    x.target = target.p;
    r = send_to_hosts(&x, e);
    if (r == -EACCES && reread_password(h, buf_str(&x.authorization)))
        r = send_to_hosts(&x, e);
    buf_done(&x.authorization);
    return r;
}

int click_send(struct click_http *h, struct str sql, struct click_call *call, struct buf *ret, struct err *e)
{
    int64_t begin = clock_mono();
    int r = send_to_any(h, sql, call, ret, e);

    if (!call->uncounted) {
        atomic_fetch_add(&h->requests, 1);
        atomic_fetch_add(&h->waited_ns, (uint64_t) (clock_mono() - begin));
    }
    return r;
}

int click_exec(struct click_http *h, struct str sql, struct err *e)
{
    struct click_call call = {0};

    return click_send(h, sql, &call, NULL, e);
}
