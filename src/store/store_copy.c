/* SPDX-License-Identifier: Apache-2.0 */
/* Copies the profiles of one store to another, hour by hour (store_copy.h). */
#include "store/store_copy.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "model/batch.h"
#include "store/store.h"

#define STEP (3600 * NS_PER_S)

struct store_copying {
    const struct store_copy *c;
    uint64_t profiles, samples, refused;
    int64_t reported_ns;
    struct err *e;
};

static void _printf_(2, 3) say(const struct store_copy *c, const char *fmt, ...)
{
    char line[ERR_MESSAGE_MAX];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    c->report(line);
}

static int copy_batch(void *ctx, struct batch *b)
{
    struct store_copying *x = ctx;
    struct sink_context to = {.tenant = x->c->tenant, .received_ns = clock_wall()};
    struct ack_result result = {0};
    int r;

    for (int wait = 1;; wait = MIN(wait * 2, 30)) { /* the target may be away for a while */
        r = store_append_wait(x->c->to, b, &to, &result);
        if (r == 0 || !sink_status_retryable(&result))
            break;
        say(x->c, "%s; trying again in %d s", result.message, wait);
        sleep((unsigned) wait);
    }
    if (r < 0)
        return err_set(x->e, r, "cannot store a profile: %s", result.message);
    x->profiles += b->n_profiles;
    x->samples += b->n_samples;
    x->refused += result.rejected;
    return 0;
}

static void report_progress(struct store_copying *x, int64_t at, bool last)
{
    _cleanup_(buf_done) struct buf when = BUF_INIT;

    if (!last && clock_mono() - x->reported_ns < 2 * NS_PER_S)
        return;
    x->reported_ns = clock_mono();
    clock_format(&when, at);
    say(x->c, "copied up to %.*s (%.0f %%): %llu profiles, %llu samples%s", STR_FMT(buf_str(&when)),
        100.0 * (double) (at - x->c->begin) / (double) MAX(x->c->end - x->c->begin, 1),
        (unsigned long long) x->profiles, (unsigned long long) x->samples, last ? "; done" : "");
}

/* The time up to which an earlier run has copied. */
static int64_t read_state(const struct store_copy *c)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    int64_t at;

    if (fd_read_file(c->state, 64, &text, NULL) < 0 || str_to_i64(str_trim(buf_str(&text)), 10, &at) < 0)
        return c->begin;
    return MAX(at, c->begin);
}

static int write_state(const struct store_copy *c, int64_t at, struct err *e)
{
    char text[32];
    int n = snprintf(text, sizeof text, "%lld\n", (long long) at);

    return fd_write_file(c->state, text, (size_t) n, e);
}

int store_copy_run(const struct store_copy *c, struct err *e)
{
    struct store_copying x = {.c = c, .e = e};
    struct selector all = {0};
    int64_t at = read_state(c);
    int r = 0;

    if (at > c->begin)
        say(c, "continuing the copy that '%s' records", c->state);
    while (r == 0 && at < c->end) {
        int64_t to = MIN(at - at % STEP + STEP, c->end);
        struct store_query q = {.tenant = c->tenant, .n_columns = 1, .columns = {{&all, at, to}}};

        r = c->from->ops->export(c->from, &q, copy_batch, &x, e);
        if (r == 0)
            r = write_state(c, to, e);
        if (r == 0)
            report_progress(&x, to, false);
        at = to;
    }
    if (r < 0)
        return r;
    report_progress(&x, c->end, true);
    if (x.refused)
        say(c, "the target refused %llu profiles", (unsigned long long) x.refused);
    unlink(c->state);
    return 0;
}
