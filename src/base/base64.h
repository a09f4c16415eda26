/* SPDX-License-Identifier: Apache-2.0 */
/* Base64 (RFC 4648). Decoding accepts both alphabets (+/ and -_), with or without padding. */
#ifndef BASE_BASE64_H
#define BASE_BASE64_H

#include <sys/types.h>

#include "base/buf.h"
#include "base/str.h"

/* Appends to out, with padding, in the standard alphabet. */
void base64_encode(struct buf *out, const void *p, size_t n);
/* The maximum number of bytes that decoding s writes. */
static inline size_t base64_decoded_max(struct str s)
{
    return (size_t) s.n / 4 * 3 + 3;
}
/* Writes to ret (room for base64_decoded_max) and returns the number of bytes, or -EINVAL. */
ssize_t base64_decode(struct str s, void *ret);

#endif
