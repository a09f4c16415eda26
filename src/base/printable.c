/* SPDX-License-Identifier: Apache-2.0 */
/* Escapes control characters (printable.h). It allocates only in the buffer: errors of the SDK use it, too. */
#include "base/printable.h"

#include <stdio.h>
#include <string.h>

enum { ESCAPED = 4 }; /* bytes of \xNN */

/* Length of the UTF-8 character at p, 1 if it is not valid UTF-8. */
static size_t character(const unsigned char *p, size_t n)
{
    size_t k = p[0] >= 0xf0 && p[0] < 0xf5 ? 4 : p[0] >= 0xe0 ? 3 : p[0] >= 0xc2 ? 2 : 1;

    if (p[0] >= 0xf5 || k > n)
        return 1;
    for (size_t i = 1; i < k; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 1;
    return k;
}

/* The code of a character that changes the order in which text is shown, ends a line or is invisible; 0 for others. */
static unsigned deceptive(const unsigned char *p, size_t k)
{
    unsigned code = 0;

    if (k == 2)
        code = (p[0] & 0x1fu) << 6 | (p[1] & 0x3fu);
    if (k == 3)
        code = (p[0] & 0x0fu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
    if (code == 0x61c || (code >= 0x200b && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) ||
        (code >= 0x2060 && code <= 0x206f) || code == 0xfeff)
        return code;
    return 0;
}

/* True when the character of k bytes at p must not reach a terminal. */
static bool is_control(const unsigned char *p, size_t k, bool lines)
{
    if (k == 2 && p[0] == 0xc2 && p[1] < 0xa0)
        return true;
    if (k > 1)
        return deceptive(p, k);
    if (p[0] == '\t' || (lines && p[0] == '\n'))
        return false;
    return p[0] < 0x20 || (p[0] >= 0x7f && p[0] < 0xa0);
}

/* The length of the prefix without control characters. */
static size_t clean(const unsigned char *p, size_t n, bool lines)
{
    size_t i = 0;

    while (i < n) {
        size_t k = character(p + i, n - i);

        if (is_control(p + i, k, lines))
            break;
        i += k;
    }
    return i;
}

static void put_control(struct buf *b, const unsigned char *p, size_t k)
{
    unsigned code = deceptive(p, k);

    if (code)
        buf_printf(b, "\\u%04x", code);
    for (size_t i = 0; !code && i < k; i++)
        buf_printf(b, "\\x%02x", p[i]);
}

void printable_put(struct buf *b, struct str s, bool lines)
{
    const unsigned char *p = (const unsigned char *) s.p;
    size_t n = s.n;

    while (n) {
        size_t k = clean(p, n, lines);

        buf_put(b, p, k);
        p += k;
        n -= k;
        k = n ? character(p, n) : 0;
        put_control(b, p, k);
        p += k;
        n -= k;
    }
}

void printable_fix(char *text, size_t size)
{
    size_t n = strlen(text), at = clean((unsigned char *) text, n, true);

    while (at < n) {
        size_t k = character((unsigned char *) text + at, n - at);

        for (size_t i = 0; i < k && at < n; i++) {
            unsigned char byte = (unsigned char) text[at];
            char escaped[ESCAPED + 1];

            if (at + ESCAPED >= size) { /* no room for another one */
                text[at] = 0;
                return;
            }
            n = n + ESCAPED - 1 < size ? n + ESCAPED - 1 : size - 1;
            memmove(text + at + ESCAPED, text + at + 1, n - at - ESCAPED);
            snprintf(escaped, sizeof escaped, "\\x%02x", byte);
            memcpy(text + at, escaped, ESCAPED);
            at += ESCAPED;
        }
        text[n] = 0;
        at += clean((unsigned char *) text + at, n - at, true);
    }
}
