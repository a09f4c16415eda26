/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of programs (src/cli, src/server, src/agent, src/pipeline) to stderr, one line each, logfmt or JSON.
 * Libraries (base, model, codec, elf, dwarf, report, store, query, net) never log: they return an error message in a
 * struct err. Thread-safe; a line is one write(2).
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>

#include "base/err.h"
#include "base/macros.h"
#include "base/str.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };
enum log_format { LOG_TEXT, LOG_LOGFMT, LOG_JSON };

void log_setup(enum log_level level, enum log_format format);
int log_parse_format(struct str s, enum log_format *ret);
bool log_enabled(enum log_level level);

/* LOG_TEXT is "wick: message", for commands run by a user; the others carry time and level, for daemons. */
void log_at(enum log_level level, const char *fmt, ...) _printf_(2, 3);

#define log_debug(...) log_at(LOG_DEBUG, __VA_ARGS__)
#define log_info(...) log_at(LOG_INFO, __VA_ARGS__)
#define log_warn(...) log_at(LOG_WARN, __VA_ARGS__)
#define log_error(...) log_at(LOG_ERROR, __VA_ARGS__)

/* A rate limiter for a message that a peer can provoke: true at most once per period, and then with the number of times
 * it was suppressed before. static struct log_limit l; if (log_limited(&l, NS_PER_S, &held)) log_warn(...) */
struct log_limit {
    int64_t next;
    uint64_t held;
};
bool log_limited(struct log_limit *l, int64_t period_ns, uint64_t *ret_held);

#endif
