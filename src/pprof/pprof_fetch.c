/* SPDX-License-Identifier: Apache-2.0 */
/* Fetches profiles over HTTP, follows redirects and shows progress (pprof_fetch.h). */
#include "pprof/pprof_fetch.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/base64.h"
#include "base/clock.h"
#include "base/url.h"
#include "net/fetch.h"
#include "net/http.h"
#include "pprof/pprof_url.h"
#include "pprof/pprof_wick.h"
#include "report/gopath.h"

enum { REDIRECTS_MAX = 10, TIMEOUT_DEFAULT_S = 60, GRACE_S = 5 };
#define ANSWER_MAX ((size_t) 512 << 20) /* as received, and decompressed */

static atomic_bool interrupted;

static void on_interrupt(int sig)
{
    interrupted = true;
}

void pprof_fetch_catch(bool on)
{
    static struct sigaction old;
    struct sigaction action = {.sa_handler = on_interrupt};

    if (on)
        sigaction(SIGINT, &action, &old);
    else
        sigaction(SIGINT, &old, NULL);
}

struct progress {
    int64_t started, seconds;
    bool shown;
};

/* On a terminal: shows the elapsed time and the total. */
static bool show_progress(void *arg, uint64_t done, uint64_t total)
{
    struct progress *p = arg;
    int64_t elapsed = (clock_mono() - p->started) / NS_PER_S;

    if (!isatty(STDERR_FILENO))
        return true;
    p->shown = true;
    if (!done && p->seconds > 0)
        fprintf(stderr, "\r%lld of %lld s ", (long long) elapsed, (long long) p->seconds);
    else if (done)
        fprintf(stderr, "\r%llu kB     ", (unsigned long long) done / 1024);
    return true;
}

static const char *status_text(int status)
{
    switch (status) {
    case 400:
        return " Bad Request";
    case 401:
        return " Unauthorized";
    case 403:
        return " Forbidden";
    case 404:
        return " Not Found";
    case 405:
        return " Method Not Allowed";
    case 500:
        return " Internal Server Error";
    case 502:
        return " Bad Gateway";
    case 503:
        return " Service Unavailable";
    case 504:
        return " Gateway Timeout";
    default:
        return "";
    }
}

static int refused(const struct fetch_result *res, struct err *e)
{
    struct str type = http_headers_get(&res->headers, "content-type");

    if (http_headers_get(&res->headers, "x-go-pprof").n && str_find(type, STR("text/plain")) >= 0)
        return err_set(e, -EIO, "server response: %d%s - %.*s", res->status, status_text(res->status),
                       STR_FMT(buf_str(&res->body)));
    return err_set(e, -EIO, "server response: %d%s", res->status, status_text(res->status));
}

/* Sends one request; *again is filled if the response is a redirect. */
static int request(struct fetch_options *o, struct buf *out, struct buf *again, struct err *e)
{
    struct fetch_result res = {0};
    int r = fetch_url(o, &res, e);

    buf_reset(again);
    if (r < 0) {
        r = interrupted ? err_set(e, -EINTR, "interrupted")
            : o->method ? err_prefix(e, r, "Post \"%s\": ", o->url)
                        : err_prefix(e, r, "http fetch: Get \"%s\": ", o->url);
    } else if (res.status == 301 || res.status == 302 || res.status == 303 || res.status == 307 || res.status == 308) {
        pprof_url_redirect(str_from(o->url), http_headers_get(&res.headers, "location"), again);
    } else if (res.status != 200) {
        r = refused(&res, e);
    } else {
        r = fetch_decode(&res, ANSWER_MAX, e);
        if (r >= 0) {
            buf_done(out);
            *out = res.body;
            res.body = BUF_INIT;
        }
    }
    fetch_result_done(&res);
    return r;
}

/* Removes "user:password@" from a URL and makes a header's value of it, empty if there is none. */
static void take_login(struct buf *url, struct buf *ret)
{
    ptrdiff_t scheme = str_find(buf_str(url), STR("://")), at = -1;
    size_t begin = scheme < 0 ? 0 : (size_t) scheme + 3;
    struct str host = str_slice(buf_str(url), begin, url->n), login;
    struct arena arena;

    for (size_t i = 0; i < host.n && !strchr("/?#", host.p[i]); i++)
        at = host.p[i] == '@' ? (ptrdiff_t) i : at;
    buf_reset(ret);
    if (at < 0)
        return;
    arena_init(&arena, 1 << 20);
    login = http_percent_decode(&arena, str_slice(host, 0, (size_t) at), false);
    buf_puts(ret, "Basic ");
    base64_encode(ret, login.p, login.n);
    arena_done(&arena);
    memmove(url->p + begin, url->p + begin + at + 1, url->n - begin - (size_t) at - 1);
    url->n -= (size_t) at + 1;
}

/* Scheme, host and port of a URL, as they are written. */
static struct str origin_of(struct str url)
{
    ptrdiff_t scheme = str_find(url, STR("://"));
    size_t end = scheme < 0 ? 0 : (size_t) scheme + 3;

    while (end < url.n && !strchr("/?#", url.p[end]))
        end++;
    return str_slice(url, 0, end);
}

/* Sends the request and follows redirects. A login is sent only to the URL that contains it, a token only to the server
 * that was asked first. */
static int follow(struct fetch_options *o, struct buf *url, struct buf *out, struct err *e)
{
    _cleanup_(buf_done) struct buf again = BUF_INIT, login = BUF_INIT;
    struct http_header headers[2];
    uint32_t n = (uint32_t) o->n_headers;

    if (n)
        headers[0] = o->headers[0];
    o->headers = headers;
    for (int i = 0; i <= REDIRECTS_MAX; i++) {
        int r;

        take_login(url, &login);
        headers[n] = (struct http_header){STR("authorization"), buf_str(&login)};
        o->n_headers = n + (login.n > 0);
        o->url = buf_cstr(url);
        if (!o->url || buf_error(&login))
            return -ENOMEM;
        r = request(o, out, &again, e);
        if (r < 0 || !again.n)
            return r;
        if (n && str_is(headers[0].name, "authorization") &&
            !str_eq(origin_of(buf_str(url)), origin_of(buf_str(&again))))
            n = 0;
        buf_reset(url);
        buf_put(url, again.p, again.n);
    }
    return err_set(e, -ELOOP, "stopped after %d redirects", REDIRECTS_MAX);
}

static int64_t timeout_of(const struct pprof_args *a, int64_t seconds)
{
    int64_t t = a->timeout > 0 ? a->timeout : seconds > 0 ? seconds + seconds / 2 : TIMEOUT_DEFAULT_S;

    return (t + GRACE_S) * NS_PER_S;
}

static const char *file_name(struct str s)
{
    return s.n ? s.p : NULL;
}

/* Options of every request: keys and CAs of the command line, Ctrl-C. An https+insecure URL becomes an https one. */
static void set_options(const struct pprof_args *a, struct buf *url, struct tls_options *tls, struct fetch_options *o)
{
    *tls = (struct tls_options){.ca_file = file_name(a->tls_ca),
                                .cert_file = file_name(a->tls_cert),
                                .key_file = file_name(a->tls_key),
                                .http1 = true};
    *o = (struct fetch_options){
        .max_answer = ANSWER_MAX, .tls = &tls_openssl, .tls_options = tls, .cancel = &interrupted};
    if (str_starts(buf_str(url), STR("https+insecure://"))) {
        tls->insecure_skip_verify = true;
        memmove(url->p + 5, url->p + 14, url->n - 14);
        url->n -= 9;
    }
}

int pprof_fetch(const struct pprof_args *a, const char *source, bool quiet, struct buf *out, struct buf *ret_url,
                struct err *e)
{
    _cleanup_(buf_done) struct buf url = BUF_INIT, bearer = BUF_INIT;
    struct http_header authorization = {STR("authorization"), {0}};
    struct progress progress = {.started = clock_mono(), .seconds = a->seconds};
    char shown[URL_SHOWN];
    struct tls_options tls;
    struct fetch_options o;
    int r;

    if (pprof_wick_url(str_from(source), &url)) {
        if (getenv("WICK_TOKEN")) {
            buf_printf(&bearer, "Bearer %s", getenv("WICK_TOKEN"));
            authorization.value = buf_str(&bearer);
        }
    } else if (!pprof_url_adjust(str_from(source), &progress.seconds, &url))
        return err_set(e, -ENOENT, "stat %s: no such file or directory", url_redact(source, shown, sizeof shown));
    if (!buf_cstr(&url))
        return -ENOMEM;
    fprintf(stderr, "Fetching profile over HTTP from %s\n", url_redact(url.p, shown, sizeof shown));
    if (a->seconds > 0) {
        _cleanup_(buf_done) struct buf wait = BUF_INIT;

        gotime_duration(&wait, a->seconds * NS_PER_S);
        fprintf(stderr, "Please wait... (%.*s)\n", STR_FMT(buf_str(&wait)));
    }
    buf_put_str(ret_url, buf_str(&url));
    set_options(a, &url, &tls, &o);
    if (bearer.n) {
        o.headers = &authorization;
        o.n_headers = 1;
    }
    o.progress = quiet ? NULL : show_progress;
    o.arg = &progress;
    o.timeout_ns = timeout_of(a, progress.seconds);
    r = follow(&o, &url, out, e);
    if (progress.shown)
        fputs("\r\033[K", stderr);
    return r;
}

int pprof_post(const struct pprof_args *a, struct str where, struct str body, struct buf *out, struct err *e)
{
    static const struct http_header type = {STR("content-type"), STR("application/octet-stream")};
    _cleanup_(buf_done) struct buf url = BUF_INIT;
    char shown[URL_SHOWN];
    struct tls_options tls;
    struct fetch_options o;
    int r;

    buf_put_str(&url, where);
    if (!buf_cstr(&url))
        return -ENOMEM;
    url_redact(url.p, shown, sizeof shown);
    set_options(a, &url, &tls, &o);
    o.method = "POST";
    o.headers = &type;
    o.n_headers = 1;
    o.body = body;
    o.timeout_ns = timeout_of(a, 0);
    pprof_fetch_catch(true);
    r = follow(&o, &url, out, e);
    pprof_fetch_catch(false);
    return r < 0 ? err_prefix(e, r, "http post %s: ", shown) : 0;
}
