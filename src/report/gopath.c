/* SPDX-License-Identifier: Apache-2.0 */
/* Path and time functions with the semantics of Go's path/filepath and time packages. */
#include "report/gopath.h"

#include <time.h>

#include "base/clock.h"

bool gopath_is_clean(struct str p)
{
    if (!p.n || (p.n > 1 && p.p[p.n - 1] == '/'))
        return false;
    for (size_t i = 0; i < p.n; i++) {
        if (p.p[i] == '/' && i + 1 < p.n && p.p[i + 1] == '/')
            return false;
        /* An element that starts with a dot may be "." or "..": leave it to the slow way. */
        if (p.p[i] == '.' && (i == 0 || p.p[i - 1] == '/') && (i + 1 == p.n || p.p[i + 1] == '/' || p.p[i + 1] == '.'))
            return false;
    }
    return true;
}

/* Drops the last element of out, down to `floor` bytes. */
static void backtrack(struct buf *out, size_t floor)
{
    while (out->n > floor && out->p[--out->n] != '/')
        ;
}

void gopath_clean(struct buf *out, struct str path)
{
    bool rooted = path.n && path.p[0] == '/';
    size_t floor, i = rooted;

    buf_reset(out);
    if (rooted)
        buf_putc(out, '/');
    floor = out->n;
    while (i < path.n) {
        size_t end = i;
        struct str e;

        while (end < path.n && path.p[end] != '/')
            end++;
        e = str_slice(path, i, end);
        i = end + 1;
        if (!e.n || str_eq(e, STR(".")))
            continue;
        if (str_eq(e, STR(".."))) {
            if (out->n > floor) {
                backtrack(out, floor);
                continue;
            }
            if (rooted)
                continue;
            if (out->n)
                buf_putc(out, '/');
            buf_puts(out, "..");
            floor = out->n;
            continue;
        }
        if (out->n > (size_t) rooted)
            buf_putc(out, '/');
        buf_put_str(out, e);
    }
    if (!out->n)
        buf_putc(out, '.');
}

struct str gopath_base(struct str p)
{
    size_t start;

    if (!p.n)
        return STR(".");
    while (p.n && p.p[p.n - 1] == '/')
        p.n--;
    if (!p.n)
        return STR("/");
    for (start = p.n; start && p.p[start - 1] != '/'; start--)
        ;
    return str_slice(p, start, p.n);
}

void gopath_dir(struct buf *out, struct str p)
{
    while (p.n && p.p[p.n - 1] != '/')
        p.n--;
    gopath_clean(out, p);
}

void gopath_join(struct buf *out, struct str a, struct str b)
{
    _cleanup_(buf_done) struct buf both = BUF_INIT;

    buf_put_str(&both, a);
    if (a.n && b.n)
        buf_putc(&both, '/');
    buf_put_str(&both, b);
    buf_reset(out);
    if (both.n)
        gopath_clean(out, buf_str(&both));
}

/* v units of 10^-digits, with the fraction's trailing zeros cut. */
static void put_fraction(struct buf *out, uint64_t v, uint64_t one)
{
    uint64_t whole = v / one, rest = v % one;

    buf_printf(out, "%llu", (unsigned long long) whole);
    if (!rest)
        return;
    buf_putc(out, '.');
    for (uint64_t place = one / 10; rest; place /= 10) {
        buf_putc(out, (char) ('0' + rest / place));
        rest %= place;
    }
}

void gotime_duration(struct buf *out, int64_t ns)
{
    uint64_t u = ns < 0 ? 0 - (uint64_t) ns : (uint64_t) ns, seconds, minutes;

    if (!u) {
        buf_puts(out, "0s");
        return;
    }
    if (ns < 0)
        buf_putc(out, '-');
    if (u < NS_PER_S) {
        uint64_t one = u < NS_PER_US ? 1 : u < NS_PER_MS ? NS_PER_US : NS_PER_MS;

        put_fraction(out, u, one);
        buf_puts(out, one == 1 ? "ns" : one == NS_PER_US ? "\xc2\xb5s" : "ms");
        return;
    }
    seconds = u / NS_PER_S;
    minutes = seconds / 60;
    if (minutes >= 60)
        buf_printf(out, "%lluh", (unsigned long long) (minutes / 60));
    if (minutes)
        buf_printf(out, "%llum", (unsigned long long) (minutes % 60));
    put_fraction(out, u - minutes * 60 * NS_PER_S, NS_PER_S);
    buf_putc(out, 's');
}

void gotime_local(struct buf *out, int64_t unix_ns, bool full)
{
    int64_t seconds = unix_ns / NS_PER_S, rest = unix_ns % NS_PER_S;
    char text[80];
    struct tm tm;
    time_t t;

    if (rest < 0) {
        rest += NS_PER_S;
        seconds--;
    }
    t = (time_t) seconds;
    if (!localtime_r(&t, &tm))
        return;
    strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm);
    buf_puts(out, text);
    if (full && rest) {
        int digits = 9;

        for (; rest % 10 == 0; rest /= 10)
            digits--;
        buf_printf(out, ".%0*lld", digits, (long long) rest);
    }
    strftime(text, sizeof(text), full ? " %z %Z" : " %Z", &tm);
    buf_puts(out, text);
}
