/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the answers of S3; see s3_xml.h. The input comes from the network: nothing is read past its end, and the output is
 * never longer than the input. */
#include "objects/s3_xml.h"

#include <stdint.h>
#include <string.h>

/* Finds "<name" or "</name" followed by '>', '/' or white space, from `from` on. */
static const char *find_tag(struct str s, const char *from, const char *open, struct str name)
{
    const char *end = s.p + s.n, *at = from;
    size_t n = strlen(open) + name.n;

    while (at < end && (at = memmem(at, (size_t) (end - at), open, strlen(open)))) {
        if ((size_t) (end - at) > n && memcmp(at + strlen(open), name.p, name.n) == 0 && memchr(">/ \t\r\n", at[n], 6))
            return at;
        at++;
    }
    return NULL;
}

bool s3_xml_next(struct str *rest, const char *name, struct str *ret)
{
    struct str s = *rest, tag = str_from(name);
    const char *end = s.p + s.n, *open, *body, *close, *after;

    if (!s.n)
        return false;
    open = find_tag(s, s.p, "<", tag);
    body = open ? memchr(open, '>', (size_t) (end - open)) : NULL;
    if (!body)
        return false;
    if (body[-1] == '/') {
        *ret = (struct str){body, 0};
        *rest = (struct str){body + 1, (uint32_t) (end - body - 1)};
        return true;
    }
    body++;
    close = find_tag(s, body, "</", tag);
    after = close ? memchr(close, '>', (size_t) (end - close)) : NULL;
    if (!after)
        return false;
    *ret = (struct str){body, (uint32_t) (close - body)};
    *rest = (struct str){after + 1, (uint32_t) (end - after - 1)};
    return true;
}

/* Decodes the entity that name holds, without '&' and ';'. Returns 0 when it is unknown or not ASCII. */
static char entity(struct str name)
{
    static const struct {
        const char *name;
        char c;
    } known[] = {{"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}};
    uint64_t n = 0;

    for (size_t i = 0; i < ARRAY_SIZE(known); i++)
        if (str_is(name, known[i].name))
            return known[i].c;
    if (name.n > 1 && name.p[0] == '#') {
        bool hex = name.p[1] == 'x';

        if (str_to_u64(str_slice(name, hex ? 2 : 1, name.n), hex ? 16 : 10, &n) < 0 || n > 126)
            return 0;
    }
    return (char) n;
}

struct str s3_xml_text(struct str xml, const char *name, struct arena *a)
{
    struct str raw;
    uint32_t n = 0;
    char *out;

    if (!s3_xml_next(&xml, name, &raw))
        return (struct str){"", 0};
    out = arena_alloc(a, raw.n + 1);
    if (!out)
        return (struct str){"", 0};
    for (uint32_t i = 0; i < raw.n; i++) {
        const char *end = raw.p[i] == '&' ? memchr(raw.p + i, ';', raw.n - i) : NULL;
        char c = end ? entity(str_slice(raw, i + 1, (size_t) (end - raw.p))) : 0;

        out[n++] = c ? c : raw.p[i];
        if (c)
            i = (uint32_t) (end - raw.p);
    }
    out[n] = 0;
    return (struct str){out, n};
}
