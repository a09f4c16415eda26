/* SPDX-License-Identifier: Apache-2.0 */
/* Encoding and decoding of Base64 (base64.h). */
#include "base/base64.h"

#include <errno.h>
#include <sys/types.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_encode(struct buf *out, const void *p, size_t n)
{
    const unsigned char *b = p;

    for (size_t i = 0; i < n; i += 3) {
        uint32_t v = (uint32_t) b[i] << 16 | (i + 1 < n ? (uint32_t) b[i + 1] << 8 : 0) | (i + 2 < n ? b[i + 2] : 0);
        char quad[4] = {alphabet[v >> 18], alphabet[v >> 12 & 63], i + 1 < n ? alphabet[v >> 6 & 63] : '=',
                        i + 2 < n ? alphabet[v & 63] : '='};

        buf_put(out, quad, 4);
    }
}

static int digit(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == '+' || c == '-')
        return 62;
    return c == '/' || c == '_' ? 63 : -1;
}

ssize_t base64_decode(struct str s, void *ret)
{
    unsigned char *q = ret;
    uint32_t v = 0;
    unsigned have = 0; /* bits of v not yet written */

    while (s.n && s.p[s.n - 1] == '=' && s.n % 4 != 1)
        s.n--;
    if (s.n % 4 == 1)
        return -EINVAL;
    for (uint32_t i = 0; i < s.n; i++) {
        int d = digit(s.p[i]);

        if (d < 0)
            return -EINVAL;
        v = v << 6 | (uint32_t) d;
        have += 6;
        if (have >= 8) {
            have -= 8;
            *q++ = (unsigned char) (v >> have);
        }
    }
    return q - (unsigned char *) ret;
}
