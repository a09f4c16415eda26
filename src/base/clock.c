/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the clocks, and parses and prints times and durations (clock.h). */
#include "base/clock.h"

#include <errno.h>
#include <sys/resource.h>
#include <time.h>

static int64_t get(clockid_t id)
{
    struct timespec ts;

    clock_gettime(id, &ts);
    return ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

int64_t clock_wall(void)
{
    return get(CLOCK_REALTIME);
}

int64_t clock_mono(void)
{
    return get(CLOCK_MONOTONIC);
}

int64_t clock_boot(void)
{
    return get(CLOCK_BOOTTIME);
}

int64_t clock_cpu(void)
{
    return get(CLOCK_PROCESS_CPUTIME_ID);
}

static int64_t timeval_ns(struct timeval t)
{
    return t.tv_sec * NS_PER_S + t.tv_usec * NS_PER_US;
}

int64_t clock_rusage(const struct rusage *u)
{
    return timeval_ns(u->ru_utime) + timeval_ns(u->ru_stime);
}

static int64_t unit_of(struct str u)
{
    static const struct {
        const char *name;
        int64_t ns;
    } units[] = {
        {"ns", 1},
        {"us", NS_PER_US},
        {"\xc2\xb5s", NS_PER_US},
        {"ms", NS_PER_MS},
        {"s", NS_PER_S},
        {"m", 60 * NS_PER_S},
        {"h", 3600 * NS_PER_S},
        {"d", 86400 * NS_PER_S},
        {"w", 7 * 86400 * NS_PER_S},
    };

    for (size_t i = 0; i < ARRAY_SIZE(units); i++)
        if (str_is(u, units[i].name))
            return units[i].ns;
    return 0;
}

static int parse_duration(struct str s, double *ret, struct err *e)
{
    struct str whole = s;
    double total = 0;

    if (!s.n)
        return err_set(e, -EINVAL, "empty duration; write it like 30s, 5m or 1h30m");
    while (s.n) {
        uint32_t i = 0, j;
        int64_t unit;
        double v;

        while (i < s.n && ((s.p[i] >= '0' && s.p[i] <= '9') || s.p[i] == '.'))
            i++;
        for (j = i; j < s.n && !((s.p[j] >= '0' && s.p[j] <= '9') || s.p[j] == '.'); j++)
            ;
        unit = i == s.n && whole.p == s.p ? NS_PER_S : unit_of(str_slice(s, i, j));
        if (str_to_double(str_slice(s, 0, i), &v) < 0 || !unit)
            return err_set(e, -EINVAL, "cannot read '%.*s' as a duration; write it like 30s, 5m or 1h30m",
                           STR_FMT(whole));
        total += v * (double) unit;
        s = str_slice(s, j, s.n);
    }
    *ret = total;
    return 0;
}

int clock_parse_duration(struct str s, int64_t *ret, struct err *e)
{
    double d;
    int r = parse_duration(s, &d, e);

    if (r < 0)
        return r;
    if (d >= (double) CLOCK_MAX)
        return err_set(e, -EINVAL, "duration '%.*s' is too long", STR_FMT(s));
    *ret = (int64_t) d;
    return 0;
}

static int parse_digits(struct str *s, uint32_t n, int *ret)
{
    uint64_t v;

    if (s->n < n || str_to_u64(str_slice(*s, 0, n), 10, &v) < 0)
        return -EINVAL;
    *ret = (int) v;
    *s = str_slice(*s, n, s->n);
    return 0;
}

static int parse_sep(struct str *s, const char *any)
{
    if (!s->n || !strchr(any, s->p[0]))
        return -EINVAL;
    *s = str_slice(*s, 1, s->n);
    return 0;
}

static int parse_fraction(struct str *s, int64_t *ret)
{
    int64_t ns = 0, unit = NS_PER_S / 10;

    if (!s->n || s->p[0] != '.')
        return 0;
    for (*s = str_slice(*s, 1, s->n); s->n && s->p[0] >= '0' && s->p[0] <= '9'; *s = str_slice(*s, 1, s->n)) {
        ns += (s->p[0] - '0') * unit;
        unit /= 10;
    }
    *ret = ns;
    return 0;
}

static int parse_zone(struct str s, int *ret_s)
{
    int h, m = 0, sign;

    if (str_is(s, "Z") || str_is(s, "z") || !s.n) {
        *ret_s = 0;
        return 0;
    }
    sign = s.p[0] == '-' ? -1 : 1;
    if (parse_sep(&s, "+-") < 0 || parse_digits(&s, 2, &h) < 0)
        return -EINVAL;
    if (s.n && s.p[0] == ':')
        s = str_slice(s, 1, s.n);
    if (s.n && parse_digits(&s, 2, &m) < 0)
        return -EINVAL;
    *ret_s = sign * (h * 3600 + m * 60);
    return s.n ? -EINVAL : 0;
}

/* A count of units as a time. Times out of range are set to the earliest or latest one. */
static int64_t bounded(int64_t v, int64_t unit)
{
    int64_t t;

    if (__builtin_mul_overflow(v, unit, &t))
        t = v < 0 ? CLOCK_MIN : CLOCK_MAX;
    return MIN(MAX(t, CLOCK_MIN), CLOCK_MAX);
}

static int parse_rfc3339(struct str s, int64_t *ret)
{
    struct tm tm = {0};
    int64_t fraction = 0;
    int zone = 0;

    if (parse_digits(&s, 4, &tm.tm_year) < 0 || parse_sep(&s, "-") < 0 || parse_digits(&s, 2, &tm.tm_mon) < 0 ||
        parse_sep(&s, "-") < 0 || parse_digits(&s, 2, &tm.tm_mday) < 0)
        return -EINVAL;
    if (s.n && (parse_sep(&s, "Tt ") < 0 || parse_digits(&s, 2, &tm.tm_hour) < 0 || parse_sep(&s, ":") < 0 ||
                parse_digits(&s, 2, &tm.tm_min) < 0))
        return -EINVAL;
    if (s.n && s.p[0] == ':' && (parse_sep(&s, ":") < 0 || parse_digits(&s, 2, &tm.tm_sec) < 0))
        return -EINVAL;
    if (parse_fraction(&s, &fraction) < 0 || parse_zone(s, &zone) < 0)
        return -EINVAL;
    if (tm.tm_mon < 1 || tm.tm_mon > 12 || tm.tm_mday < 1 || tm.tm_mday > 31 || tm.tm_hour > 23 || tm.tm_min > 59 ||
        tm.tm_sec > 60 || tm.tm_year > 2261)
        return -EINVAL;
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    *ret = bounded((int64_t) timegm(&tm) - zone, NS_PER_S) + fraction;
    return 0;
}

/* A bare number: its magnitude says whether it is in s, ms, us or ns. */
static int64_t unix_to_ns(int64_t v)
{
    static const struct {
        int64_t below, unit;
    } sizes[] = {{100000000000ll, NS_PER_S}, {100000000000000ll, NS_PER_MS}, {100000000000000000ll, NS_PER_US}};

    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
        if (v > -sizes[i].below && v < sizes[i].below)
            return bounded(v, sizes[i].unit);
    return bounded(v, 1);
}

int clock_parse(struct str s, int64_t now, int64_t *ret, struct err *e)
{
    int64_t v, d;
    double f;
    int r;

    s = str_trim(s);
    if (str_starts(s, STR("now"))) {
        struct str rest = str_slice(s, 3, s.n);

        if (!rest.n) {
            *ret = now;
            return 0;
        }
        if (rest.p[0] != '-' && rest.p[0] != '+')
            return err_set(e, -EINVAL, "cannot read '%.*s' as a time; write now, now-1h, RFC 3339 or Unix seconds",
                           STR_FMT(s));
        r = parse_duration(str_slice(rest, 1, rest.n), &f, e);
        if (r < 0)
            return r;
        d = f >= (double) CLOCK_MAX ? CLOCK_MAX : (int64_t) f;
        *ret = bounded(rest.p[0] == '-' ? now - d : now + d, 1);
        return 0;
    }
    if (str_to_i64(s, 10, &v) == 0) {
        *ret = unix_to_ns(v);
        return 0;
    }
    if (str_find_char(s, '-') < 0 && str_to_double(s, &f) == 0 && f > -9e9 && f < 9e9) {
        *ret = bounded((int64_t) (f * 1e9), 1);
        return 0;
    }
    if (parse_rfc3339(s, ret) == 0)
        return 0;
    return err_set(e, -EINVAL, "cannot read '%.*s' as a time; write now, now-1h, RFC 3339 or Unix seconds", STR_FMT(s));
}

void clock_format(struct buf *b, int64_t t)
{
    int64_t sec = t / NS_PER_S, ns = t % NS_PER_S;
    time_t tt;
    struct tm tm;
    char text[16];
    int n = 9;

    if (ns < 0) {
        ns += NS_PER_S;
        sec--;
    }
    tt = (time_t) sec;
    gmtime_r(&tt, &tm);
    buf_printf(b, "%04d-%02d-%02dT%02d:%02d:%02d", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min,
               tm.tm_sec);
    if (ns) {
        for (int i = 8; i >= 0; i--, ns /= 10)
            text[i] = (char) ('0' + ns % 10);
        while (n && text[n - 1] == '0')
            n--;
        buf_putc(b, '.');
        buf_put(b, text, (size_t) n);
    }
    buf_putc(b, 'Z');
}
