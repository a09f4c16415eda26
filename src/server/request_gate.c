/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which requests are let in: Host and Origin checks, then the token or session. See request_gate.h. */
#include "server/request_gate.h"

#include <errno.h>

#include "base/base64.h"
#include "net/host_policy.h"
#include "net/http.h"
#include "server/people.h"

static bool changes_something(const struct http_request *q)
{
    return !str_is(q->method, "GET") && !str_is(q->method, "HEAD") && !str_is(q->method, "OPTIONS");
}

bool request_gate_peer_is_local(const struct http_request *q)
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

int request_gate_check(struct auth *a, const char *const *hosts, const struct http_request *q,
                       struct auth_identity *ret, const char **ret_why)
{
    struct str host = q->authority.n ? q->authority : http_headers_get(&q->headers, "host");
    struct str origin = http_headers_get(&q->headers, "origin");
    struct str authorization = http_headers_get(&q->headers, "authorization");
    struct str session = http_cookie(&q->headers, auth_cookie(a));
    bool is_unix = str_starts(str_from(q->peer), STR("unix"));

    *ret = (struct auth_identity){0};
    if (!is_unix && !host_policy_allows(host, hosts)) {
        *ret_why = "unknown host name; add it to listen.hosts";
        return 421;
    }
    if (origin.p && changes_something(q) && !host_policy_same_origin(origin, host)) {
        *ret_why = "requests from other origins must not modify data";
        return 403;
    }
    if (auth_people(a) && people_of_proxy(auth_people(a), q, ret) > 0)
        return 0;
    if (!auth_required(a)) {
        ret->scope = auth_anonymous(a);
        if (request_gate_peer_is_local(q))
            ret->scope |= q->peer_uid != HTTP_NO_UID && auth_trusts(a, q->peer_uid) ? AUTH_ADMIN : AUTH_SEND;
        return 0;
    }
    if (authorization.p && auth_locked(a)) { /* 503: senders try again */
        *ret_why = "the server cannot read its tokens; see its log";
        return 503;
    }
    if (authorization.p && check_authorization(a, authorization, ret) < 0) {
        *ret_why = "unknown token";
        return 401;
    }
    if (!authorization.p && session.p)
        auth_session(a, session, ret);
    return 0;
}
