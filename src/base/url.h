/* SPDX-License-Identifier: Apache-2.0 */
/* URLs in messages, and endpoints of OTLP. */
#ifndef BASE_URL_H
#define BASE_URL_H

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

enum { URL_SHOWN = 512 };

/* The URL as it may be printed: "xxxxx" in place of a password, as Go's URL.Redacted() has it. The text need not be a
 * valid URL, nor have a scheme. Truncated to n bytes with the NUL. Returns out. */
const char *url_redact(const char *url, char *out, size_t n);

/* "https://host:port/path"; scheme, port and path may be missing. The parts point into the text. */
struct url_endpoint {
    bool scheme, tls; /* tls: the scheme is https */
    struct str host;
    uint16_t port;   /* 0: none */
    struct str path; /* from the '/' on */
};

/* Does not accept user names and passwords, and does not print them. */
int url_endpoint(const char *text, struct url_endpoint *ret, struct err *e);

#endif
