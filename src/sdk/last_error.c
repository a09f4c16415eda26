/* SPDX-License-Identifier: Apache-2.0 */
/* The error message of each thread's last failure (last_error.h). The text is in per-thread memory, allocated at the first
 * failure and freed when the thread ends. */
#include "sdk/last_error.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/mem.h"
#include "wick.h"

struct last_error {
    int code;
    char text[512];
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool have_key;

static void make_key(void)
{
    have_key = pthread_key_create(&key, mem_free) == 0;
}

static struct last_error *mine(bool make)
{
    struct last_error *w;

    pthread_once(&once, make_key);
    w = have_key ? pthread_getspecific(key) : NULL;
    if (!w && make && have_key && (w = mem_zalloc(sizeof *w)))
        pthread_setspecific(key, w);
    return w;
}

int last_error_set(int code, const char *fmt, ...)
{
    struct last_error *w = mine(true);
    va_list ap;

    if (!w)
        return code;
    w->code = code;
    va_start(ap, fmt);
    vsnprintf(w->text, sizeof w->text, fmt, ap);
    va_end(ap);
    return code;
}

int last_error_code(int r)
{
    switch (-r) {
    case ENOMEM:
        return WICK_ENOMEM;
    case EINVAL:
    case ERANGE:
        return WICK_EINVAL;
    case EBUSY:
        return WICK_EBUSY;
    case EADDRINUSE:
        return WICK_EADDRINUSE;
    case ECONNREFUSED:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ETIMEDOUT:
    case EAGAIN:
    case ECONNRESET:
    case EPIPE:
        return WICK_EUNREACHABLE;
    case EPROTO:
    case EBADMSG:
        return WICK_EREFUSED;
    case ENOTSUP:
    case ENOSYS:
        return WICK_EUNSUPPORTED;
    case ESHUTDOWN:
        return WICK_ESTATE;
    default:
        return WICK_ESYSTEM;
    }
}

int last_error_from(int r, const struct err *e)
{
    return last_error_set(last_error_code(r), "%s", err_message(e, r));
}

const char *wick_last_error(void)
{
    struct last_error *w = mine(false);

    return w ? w->text : "";
}

int wick_last_code(void)
{
    struct last_error *w = mine(false);

    return w ? w->code : 0;
}

const char *wick_strerror(int code)
{
    static const char *const names[] = {"success",         "wrong option",        "out of memory",
                                        "already started", "not started",         "refused by the system",
                                        "unreachable",     "refused by the peer", "not supported",
                                        "address in use"};

    return code <= 0 && -code < (int) ARRAY_SIZE(names) ? names[-code] : "unknown error";
}

const char *wick_version(void)
{
    return WICK_VERSION;
}
