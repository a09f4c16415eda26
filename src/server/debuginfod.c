/* SPDX-License-Identifier: Apache-2.0 */
/* The client of debuginfod: asks each server in turn for a debug file, within the limits on rate, time and size. See
 * debuginfod.h. */
#include "server/debuginfod.h"

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/url.h"
#include "net/fetch.h"
#include "net/tls.h"

static bool may_ask(const struct debuginfod_options *o, struct debuginfod_rate *rate)
{
    uint32_t most = (uint32_t) MIN(MAX(o->per_minute, 1), (int64_t) ARRAY_SIZE(rate->times));
    int64_t now = clock_mono();

    if (rate->n >= most && now - rate->times[(rate->n - most) % ARRAY_SIZE(rate->times)] < 60 * NS_PER_S)
        return false;
    rate->times[rate->n++ % ARRAY_SIZE(rate->times)] = now;
    return true;
}

/* GET URL/buildid/ID/KIND. The whole file is kept in memory, up to its size limit, and then written to the store. */
static int ask(const struct debuginfod_options *o, const char *url, struct str build_id, const char *kind,
               struct fetch_result *res, struct err *e)
{
    char full[2048];
    size_t n = strlen(url);
    struct fetch_options f = {.url = full,
                              .timeout_ns = o->timeout_ns,
                              .max_answer = (size_t) o->max_bytes,
                              .tls = &tls_openssl,
                              .cancel = o->stop};

    while (n && url[n - 1] == '/')
        n--;
    if ((size_t) snprintf(full, sizeof full, "%.*s/buildid/%.*s/%s", (int) n, url, STR_FMT(build_id), kind) >=
        sizeof full)
        return err_set(e, -EINVAL, "the URL of debuginfod is too long");
    return fetch_url(&f, res, e);
}

static bool is_hex(struct str s)
{
    for (uint32_t i = 0; i < s.n; i++)
        if (!((s.p[i] >= '0' && s.p[i] <= '9') || (s.p[i] >= 'a' && s.p[i] <= 'f')))
            return false;
    return s.n >= 8;
}

static int keep(struct binary_store *into, struct str build_id, struct str body, char ret_path[BINARY_PATH_SIZE],
                struct err *e)
{
    uint64_t have;
    struct binary_piece whole = {BINARY_SHARED, build_id, 0, body.n, body};
    int r = binary_store_write(into, &whole, &have, ret_path, e);

    return r < 0 ? r : 0;
}

int debuginfod_fetch(const struct debuginfod_options *o, struct debuginfod_rate *rate, struct binary_store *into,
                     struct str build_id, char ret_path[BINARY_PATH_SIZE], struct err *e)
{
    static const char *const kinds[] = {"debuginfo", "executable"};
    struct err last = {0};
    int result = -ENOENT;

    if (!is_hex(build_id))
        return err_set(e, -ENOENT, "debuginfod supports only GNU build ids");
    for (uint32_t i = 0; i < o->n_urls * ARRAY_SIZE(kinds); i++) {
        const char *url = o->urls[i / ARRAY_SIZE(kinds)];
        _cleanup_(fetch_result_done) struct fetch_result res = {0};
        char shown[URL_SHOWN];
        int r;

        if (!may_ask(o, rate))
            return err_set(e, -EAGAIN, "the limit symbols.fetches_per_minute is reached");
        r = ask(o, url, build_id, kinds[i % ARRAY_SIZE(kinds)], &res, &last);
        if (r == 0 && res.status == 200)
            r = fetch_decode(&res, (size_t) o->max_bytes, &last);
        if (r == 0 && res.status == 200 && res.body.n)
            return keep(into, build_id, buf_str(&res.body), ret_path, e);
        if (r < 0)
            result = err_set(e, r, "%.100s: %.300s", url_redact(url, shown, sizeof shown), err_message(&last, r));
        else if (res.status != 404)
            result = err_set(e, -EPROTO, "%.100s answers %d", url_redact(url, shown, sizeof shown), res.status);
        if (r == -ECANCELED)
            break;
        if (r < 0) /* nor for the other kind: it is the server that is away */
            i |= 1;
    }
    return result == -ENOENT ? err_set(e, -ENOENT, "no debuginfod server has it") : result;
}
