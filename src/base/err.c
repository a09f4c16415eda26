/* SPDX-License-Identifier: Apache-2.0 */
/* Formats error messages into a struct err (err.h). It uses vsnprintf only: the SDK may call this on its background
 * thread. */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/printable.h"

int err_set(struct err *e, int code, const char *fmt, ...)
{
    va_list ap;
    int saved = errno;

    if (!e)
        return code;
    e->code = code;
    errno = code < 0 ? -code : code; /* for %m */
    va_start(ap, fmt);
    vsnprintf(e->message, sizeof e->message, fmt, ap);
    va_end(ap);
    printable_fix(e->message, sizeof e->message); /* file names, labels and the like come from untrusted sources */
    errno = saved;
    return code;
}

int err_prefix(struct err *e, int code, const char *fmt, ...)
{
    char rest[ERR_MESSAGE_MAX];
    va_list ap;
    size_t n;

    if (!e)
        return code;
    snprintf(rest, sizeof rest, "%s", err_message(e, code));
    va_start(ap, fmt);
    vsnprintf(e->message, sizeof e->message, fmt, ap);
    va_end(ap);
    printable_fix(e->message, sizeof e->message);
    e->code = code;
    n = strlen(e->message);
    snprintf(e->message + n, sizeof e->message - n, "%s", rest);
    return code;
}

const char *err_message(const struct err *e, int code)
{
    /* Who runs out of memory often says nothing; then the message is of an earlier error that was no failure. */
    if (e && e->code && e->message[0] && (code != -ENOMEM || e->code == -ENOMEM))
        return e->message;
    return strerror(code < 0 ? -code : code);
}
