/* SPDX-License-Identifier: Apache-2.0 */
/* Checks Host and Origin headers, see host_policy.h. Uses nothing else of net: the SDK links only this file. */
#include "net/host_policy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <strings.h>

enum { HOST_MAX = 255 };

static bool is_port(struct str s)
{
    uint64_t n;

    for (uint32_t i = 0; i < s.n; i++)
        if (s.p[i] < '0' || s.p[i] > '9')
            return false;
    return !s.n || (str_to_u64(s, 10, &n) == 0 && n <= 65535);
}

/* Cuts the port off. Brackets of IPv6 stay. False if the value is neither NAME nor NAME:PORT. */
static bool split(struct str host, struct str *ret_name)
{
    bool bracketed = host.n && host.p[0] == '[';
    ptrdiff_t end = bracketed ? str_find_char(host, ']') + 1 : str_find_char(host, ':');
    struct str rest;

    if (bracketed && end == 0)
        return false;
    *ret_name = end < 0 ? host : str_slice(host, 0, (size_t) end);
    rest = end < 0 ? (struct str){0} : str_slice(host, (size_t) end, host.n);
    if (!ret_name->n || ret_name->n > HOST_MAX)
        return false;
    return !rest.n || (rest.p[0] == ':' && is_port(str_slice(rest, 1, rest.n)));
}

static bool same_name(struct str a, const char *b)
{
    return a.n == strlen(b) && strncasecmp(a.p, b, a.n) == 0;
}

/* Parses "1.2.3.4" or "[::1]" as inet_pton() does, which takes no shortened and no octal forms. */
static bool is_address(struct str name, bool *ret_loopback)
{
    char text[INET6_ADDRSTRLEN];
    struct in6_addr v6;
    struct in_addr v4;
    bool bracketed = name.n > 2 && name.p[0] == '[';

    if (bracketed)
        name = str_slice(name, 1, name.n - 1);
    if (name.n >= sizeof text || memchr(name.p, 0, name.n))
        return false;
    memcpy(text, name.p, name.n);
    text[name.n] = 0;
    if (bracketed && inet_pton(AF_INET6, text, &v6) == 1) {
        *ret_loopback = IN6_IS_ADDR_LOOPBACK(&v6);
        return true;
    }
    if (!bracketed && inet_pton(AF_INET, text, &v4) == 1) {
        *ret_loopback = ntohl(v4.s_addr) >> 24 == 127;
        return true;
    }
    return false;
}

bool host_policy_allows(struct str host, const char *const *names)
{
    struct str name;
    bool loopback;

    if (!split(host, &name))
        return false;
    if (same_name(name, "localhost") || is_address(name, &loopback))
        return true;
    for (; names && *names; names++)
        if (same_name(name, *names) || strcmp(*names, "*") == 0)
            return true;
    return false;
}

bool host_policy_same_origin(struct str origin, struct str host)
{
    ptrdiff_t at = str_find(origin, STR("://"));
    struct str of;

    if (at <= 0 || !host.n)
        return false;
    of = str_slice(origin, (size_t) at + 3, origin.n);
    return of.n == host.n && strncasecmp(of.p, host.p, of.n) == 0;
}
