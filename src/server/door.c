/* SPDX-License-Identifier: Apache-2.0 */
/* See door.h. */
#include "server/door.h"

#include <errno.h>

#include "base/base64.h"
#include "net/http.h"

/* The name without its port; brackets of IPv6 stay. */
static struct str host_name(struct str host)
{
    ptrdiff_t end = host.n && host.p[0] == '[' ? str_find_char(host, ']') + 1 : str_find_char(host, ':');

    return end > 0 ? str_slice(host, 0, (size_t) end) : host;
}

static bool host_allowed(struct str host, const char *const *hosts)
{
    static const char *const local[] = {"localhost", "127.0.0.1", "[::1]"};
    struct str name = host_name(host);

    for (size_t i = 0; i < ARRAY_SIZE(local); i++)
        if (http_eq_nocase(name, local[i]))
            return true;
    for (; hosts && *hosts; hosts++)
        if (http_eq_nocase(name, *hosts) || strcmp(*hosts, "*") == 0)
            return true;
    return false;
}

/* http://host[:port] of Origin is the host asked. */
static bool same_origin(struct str origin, struct str host)
{
    ptrdiff_t at = str_find(origin, STR("://"));

    return at > 0 && str_eq(str_slice(origin, (size_t) at + 3, origin.n), host);
}

static bool changes_something(const struct http_request *q)
{
    return !str_is(q->method, "GET") && !str_is(q->method, "HEAD") && !str_is(q->method, "OPTIONS");
}

bool door_peer_is_local(const struct http_request *q)
{
    struct str p = str_from(q->peer);

    return str_starts(p, STR("127.")) || str_starts(p, STR("[::1]")) || str_starts(p, STR("unix"));
}

static int check_authorization(struct auth *a, struct str value, struct auth_identity *ret)
{
    struct str scheme = str_cut(&value, ' ');
    char text[512];
    struct str decoded;
    ssize_t n;

    value = str_trim(value);
    if (http_eq_nocase(scheme, "bearer"))
        return auth_check(a, value, ret);
    if (!http_eq_nocase(scheme, "basic"))
        return -EACCES;
    n = base64_decoded_max(value) <= sizeof text ? base64_decode(value, text) : -EINVAL;
    if (n < 0)
        return -EACCES;
    decoded = (struct str){text, (uint32_t) n};
    str_cut(&decoded, ':');
    return auth_check(a, decoded, ret);
}

int door_check(struct auth *a, const char *const *hosts, const struct http_request *q, struct auth_identity *ret,
               const char **ret_why)
{
    struct str host = q->authority.n ? q->authority : http_headers_get(&q->headers, "host");
    struct str origin = http_headers_get(&q->headers, "origin");
    struct str authorization = http_headers_get(&q->headers, "authorization");
    struct str session = http_cookie(&q->headers, DOOR_COOKIE);
    bool is_unix = str_starts(str_from(q->peer), STR("unix"));

    *ret = (struct auth_identity){0};
    if (!is_unix && !host_allowed(host, hosts)) {
        *ret_why = "this host name is not served here; add it to listen.hosts";
        return 421;
    }
    if (origin.p && changes_something(q) && !same_origin(origin, host)) {
        *ret_why = "requests from other origins may not change anything";
        return 403;
    }
    if (!auth_required(a)) {
        if (door_peer_is_local(q))
            ret->scope = AUTH_ADMIN;
        return 0;
    }
    if (authorization.p && check_authorization(a, authorization, ret) < 0) {
        *ret_why = "this token is not known";
        return 401;
    }
    if (!authorization.p && session.p)
        auth_session(a, session, ret);
    return 0;
}
