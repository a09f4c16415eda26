/* SPDX-License-Identifier: Apache-2.0 */
/* Writes log lines to standard error as text, logfmt or JSON (log.h). */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/printable.h"

static enum log_level min_level = LOG_INFO;
static enum log_format log_format = LOG_TEXT;

static const char *const level_names[] = {"debug", "info", "warn", "error"};
static const char *const format_names[] = {"text", "logfmt", "json"};

void log_setup(enum log_level level, enum log_format format)
{
    min_level = level;
    log_format = format;
}

static int parse_name(struct str s, const char *const *names, size_t n, int *ret)
{
    for (size_t i = 0; i < n; i++)
        if (str_is(s, names[i])) {
            *ret = (int) i;
            return 0;
        }
    return -EINVAL;
}

int log_parse_format(struct str s, enum log_format *ret)
{
    int i, r = parse_name(s, format_names, ARRAY_SIZE(format_names), &i);

    if (r == 0)
        *ret = (enum log_format) i;
    return r;
}

bool log_enabled(enum log_level level)
{
    return level >= min_level;
}

static void put_line(struct buf *b, enum log_level level, struct str text)
{
    switch (log_format) {
    case LOG_TEXT:
        buf_printf(b, "wick: %s%.*s\n", level == LOG_WARN ? "warning: " : "", STR_FMT(text));
        break;
    case LOG_LOGFMT:
        buf_puts(b, "time=");
        clock_format(b, clock_wall() / NS_PER_MS * NS_PER_MS);
        buf_printf(b, " level=%s msg=", level_names[level]);
        json_put_str(b, text);
        buf_putc(b, '\n');
        break;
    case LOG_JSON:
        buf_puts(b, "{\"time\":\"");
        clock_format(b, clock_wall() / NS_PER_MS * NS_PER_MS);
        buf_printf(b, "\",\"level\":\"%s\",\"msg\":", level_names[level]);
        json_put_str(b, text);
        buf_puts(b, "}\n");
        break;
    }
}

void log_at(enum log_level level, const char *fmt, ...)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT, safe = BUF_INIT;
    char text[2048];
    va_list ap;
    int n;

    if (!log_enabled(level))
        return;
    va_start(ap, fmt);
    n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (n < 0)
        return;
    printable_put(&safe, (struct str){text, (uint32_t) MIN((size_t) n, sizeof text - 1)}, log_format == LOG_TEXT);
    put_line(&b, level, buf_str(&safe));
    if (b.n && write(STDERR_FILENO, b.p, b.n) < 0)
        return; /* there is nowhere left to report it */
}

bool log_limited(struct log_limit *l, int64_t period_ns, uint64_t *ret_held)
{
    int64_t now = clock_mono(), next = __atomic_load_n(&l->next, __ATOMIC_RELAXED);

    if (now < next ||
        !__atomic_compare_exchange_n(&l->next, &next, now + period_ns, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
        __atomic_add_fetch(&l->held, 1, __ATOMIC_RELAXED);
        return false;
    }
    *ret_held = __atomic_exchange_n(&l->held, 0, __ATOMIC_RELAXED);
    return true;
}
