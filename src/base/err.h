/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Human-readable error messages. A function that can fail for a reason a user should read takes a struct err as its
 * last argument and returns err_set(e, -EINVAL, "..."). A NULL err is allowed everywhere: then only the code is
 * returned. Libraries never print; the owner of the struct err decides where the message goes.
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include "base/macros.h"

enum { ERR_MESSAGE_MAX = 1024 };

struct err {
    int code;                      /* negative errno of the last err_set(), 0 when unset */
    char message[ERR_MESSAGE_MAX]; /* one line without a trailing newline, truncated if longer */
};

/* Sets the message (printf, %m is strerror(-code)) and returns code, which must be negative. */
int err_set(struct err *e, int code, const char *fmt, ...) _printf_(3, 4);
/* Puts a prefix in front of the message, as in "cannot read 'x': ", and returns the code already set. */
int err_prefix(struct err *e, int code, const char *fmt, ...) _printf_(3, 4);
/* The message, or strerror of code if none was set, or if code is -ENOMEM and the message is of another error. Never NULL. */
const char *err_message(const struct err *e, int code);

#endif
