/* SPDX-License-Identifier: Apache-2.0 */
/* URLs in messages. */
#ifndef BASE_URL_H
#define BASE_URL_H

#include <stddef.h>

enum { URL_SHOWN = 512 };

/* The URL as it may be printed: "xxxxx" in place of a password, as Go's URL.Redacted() has it. The text need not be a
 * valid URL, nor have a scheme. Truncated to n bytes with the NUL. Returns out. */
const char *url_redact(const char *url, char *out, size_t n);

#endif
