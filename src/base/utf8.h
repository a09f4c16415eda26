/* SPDX-License-Identifier: Apache-2.0 */
/* Writes code points as UTF-8. str_is_utf8() checks it. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdint.h>

/* Appends c, at most 0x1fffff, at `to`, which has room for four bytes. Returns the end. */
static inline char *utf8_write(char *to, uint32_t c)
{
    if (c < 0x80) {
        *to++ = (char) c;
        return to;
    }
    if (c < 0x800) {
        *to++ = (char) (0xc0 | c >> 6);
    } else {
        if (c < 0x10000) {
            *to++ = (char) (0xe0 | c >> 12);
        } else {
            *to++ = (char) (0xf0 | (c >> 18 & 7));
            *to++ = (char) (0x80 | (c >> 12 & 0x3f));
        }
        *to++ = (char) (0x80 | (c >> 6 & 0x3f));
    }
    *to++ = (char) (0x80 | (c & 0x3f));
    return to;
}

#endif
