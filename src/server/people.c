/* SPDX-License-Identifier: Apache-2.0 */
/* Grants, and the headers of a proxy (people.h). */
#include "server/people.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/sha256.h"
#include "net/http.h"

#define GRANT(f) offsetof(struct people_grant, f)
#define PROXY(f) offsetof(struct people_proxy, f)
#define OIDC(f) offsetof(struct people_oidc, f)

static const char *const scope_words[] = {"read", "write", "admin", NULL};
static const enum auth_scope scope_values[] = {AUTH_READ, AUTH_READ | AUTH_WRITE, AUTH_ADMIN};

const struct option people_grant_options[] = {
    {"group", OPT_STRING, GRANT(group), NULL, "members of this group; \"*\": everyone who is known"},
    {"user", OPT_STRING, GRANT(user), NULL, "this person"},
    {"scope", OPT_ENUM, GRANT(scope), "read", "read; write (also send, upload symbols, write notes) or admin",
     .words = scope_words},
    {"tenant", OPT_STRING, GRANT(tenant), NULL, "whose profiles (default: the default tenant)"},
    {0},
};

const struct option people_proxy_options[] = {
    {"from", OPT_STRINGS, PROXY(from), NULL,
     "addresses of the proxy, as 10.0.0.5, 10.1.0.0/16, ::1 or unix: only its headers are believed", .required = true},
    {"user_header", OPT_STRING, PROXY(user_header), "x-forwarded-user", "header that names the person"},
    {"groups_header", OPT_STRING, PROXY(groups_header), "x-forwarded-groups",
     "header with the person's groups, separated by commas"},
    {0},
};

const struct option people_oidc_options[] = {
    {"issuer", OPT_STRING, OIDC(issuer), NULL, "URL of the OpenID provider, whose discovery document is below it",
     .required = true},
    {"client_id", OPT_STRING, OIDC(client_id), NULL, "ID of this server there; its redirect URI is URL/oidc/callback",
     .required = true},
    {"client_secret", OPT_STRING, OIDC(client_secret), NULL, "secret of this server (default: none, a public client)",
     .secret = true},
    {"scopes", OPT_STRINGS, OIDC(scopes), "[openid, profile, email, groups]", "scopes that are asked for"},
    {"user_claim", OPT_STRING, OIDC(user_claim), "email",
     "claim of the ID token that names the person; without it, sub does"},
    {"groups_claim", OPT_STRING, OIDC(groups_claim), "groups", "claim with the person's groups"},
    {"name", OPT_STRING, OIDC(name), "single sign-on", "name of the provider, for the login page"},
    {"session", OPT_DURATION, OIDC(session), "8h", "time after which a person has to log in again; at most 12h"},
    {"ca_file", OPT_STRING, OIDC(ca_file), NULL, "CAs of the provider (default: those of the system)"},
    {0},
};

/* --- addresses --- */

struct network {
    int family;
    uint8_t bytes[16];
    unsigned bits;
};

static int parse_network(const char *text, struct network *ret)
{
    char address[64];
    struct str rest = str_from(text), host = str_cut(&rest, '/');
    uint64_t bits;

    if (!host.n || host.n >= sizeof address)
        return -EINVAL;
    snprintf(address, sizeof address, "%.*s", STR_FMT(host));
    *ret = (struct network){.family = strchr(address, ':') ? AF_INET6 : AF_INET};
    if (inet_pton(ret->family, address, ret->bytes) != 1)
        return -EINVAL;
    ret->bits = ret->family == AF_INET ? 32 : 128;
    if (!strchr(text, '/'))
        return 0;
    if (str_to_u64(rest, 10, &bits) < 0 || bits > ret->bits)
        return -EINVAL;
    ret->bits = (unsigned) bits;
    return 0;
}

/* peer: "127.0.0.1:1234", "[::1]:1" or "[::ffff:10.0.0.1]:1" */
static int parse_peer(const char *peer, struct network *ret)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    struct str s = str_from(peer);
    char text[64];
    uint32_t n = s.n;

    while (n && s.p[n - 1] != ':')
        n--;
    s.n = n ? n - 1 : s.n;
    if (s.n > 2 && s.p[0] == '[')
        s = str_slice(s, 1, s.n - 1);
    if (s.n >= sizeof text)
        return -EINVAL;
    snprintf(text, sizeof text, "%.*s", STR_FMT(s));
    if (parse_network(text, ret) < 0)
        return -EINVAL;
    if (ret->family == AF_INET6 && memcmp(ret->bytes, mapped, sizeof mapped) == 0) {
        ret->family = AF_INET;
        memmove(ret->bytes, ret->bytes + 12, 4);
    }
    return 0;
}

static bool contains(const struct network *net, const struct network *one)
{
    unsigned whole = net->bits / 8, rest = net->bits % 8;

    if (net->family != one->family || memcmp(net->bytes, one->bytes, whole) != 0)
        return false;
    return !rest || (net->bytes[whole] ^ one->bytes[whole]) >> (8 - rest) == 0;
}

static bool is_proxy(const struct people_proxy *p, const char *peer)
{
    bool is_unix = strncmp(peer, "unix", 4) == 0;
    struct network one, net;

    if (!is_unix && parse_peer(peer, &one) < 0)
        return false;
    for (uint32_t i = 0; i < p->from.n; i++) {
        if (strcmp(p->from.v[i], "unix") == 0
                ? is_unix
                : !is_unix && parse_network(p->from.v[i], &net) == 0 && contains(&net, &one))
            return true;
    }
    return false;
}

/* --- grants --- */

static bool is_member(struct str groups, const char *group)
{
    if (strcmp(group, "*") == 0)
        return true;
    while (groups.n)
        if (str_is(str_trim(str_cut(&groups, ',')), group))
            return true;
    return false;
}

int people_identify(const struct people_config *c, struct str user, struct str groups, struct auth_identity *ret)
{
    const struct people_grant *g = c->grants.v;
    uint8_t hash[SHA256_SIZE];

    *ret = (struct auth_identity){0};
    if (!user.n || user.n >= sizeof ret->person)
        return -EACCES;
    memcpy(ret->person, user.p, user.n);
    sha256_of(user.p, user.n, hash);
    snprintf(ret->token_id, sizeof ret->token_id, "@%02x%02x%02x%x", hash[0], hash[1], hash[2], hash[3] & 15);
    for (uint32_t i = 0; i < c->grants.n; i++) {
        if (!(g[i].user && str_is(user, g[i].user)) && !(g[i].group && is_member(groups, g[i].group)))
            continue;
        ret->scope = scope_values[g[i].scope];
        snprintf(ret->tenant, sizeof ret->tenant, "%s", g[i].tenant ? g[i].tenant : "");
        return 0;
    }
    return -EACCES;
}

/* More than one: a client's own beside the proxy's. */
static bool is_repeated(const struct http_headers *h, const char *name)
{
    unsigned n = 0;

    for (uint32_t i = 0; i < h->n; i++)
        n += http_eq_nocase(h->v[i].name, name);
    return n > 1;
}

int people_of_proxy(const struct people_config *c, const struct http_request *q, struct auth_identity *ret)
{
    struct str user;

    if (!c->proxy.present || !is_proxy(&c->proxy, q->peer))
        return -ENOENT;
    user = str_trim(http_headers_get(&q->headers, c->proxy.user_header));
    if (!user.n || is_repeated(&q->headers, c->proxy.user_header) || is_repeated(&q->headers, c->proxy.groups_header))
        return 0;
    people_identify(c, user, http_headers_get(&q->headers, c->proxy.groups_header), ret);
    return 1;
}

/* --- checks of the configuration --- */

static int check_oidc(const struct people_oidc *o, const struct conf_node *node, struct err *e)
{
    struct http_url url;
    bool local;

    if (http_url_parse(o->issuer, &url, NULL) < 0)
        return conf_error(node, -EINVAL, e, "issuer: '%s' is not a URL", o->issuer);
    local = strcmp(url.host, "localhost") == 0 || strncmp(url.host, "127.", 4) == 0 || strcmp(url.host, "::1") == 0;
    if (strncmp(o->issuer, "https://", 8) != 0 && !local)
        return conf_error(node, -EINVAL, e, "issuer: '%s' must be https: its answers decide who may do what",
                          o->issuer);
    if (o->session <= 0 || o->session > 12 * 3600 * NS_PER_S)
        return conf_error(node, -EINVAL, e, "session must be more than 0s and at most 12h");
    return 0;
}

int people_check(const struct people_config *c, const struct conf_node *auth, struct err *e)
{
    const struct people_grant *g = c->grants.v;
    const struct conf_node *list = conf_get(auth, "grants");
    struct network n;

    if ((c->proxy.present || c->oidc.present) && !c->grants.n)
        return conf_error(auth, -EINVAL, e, "proxy and oidc need grants: without them no one may do anything");
    if (c->grants.n && !c->proxy.present && !c->oidc.present)
        return conf_error(list, -EINVAL, e, "grants need proxy or oidc: what a token may do is part of the token");
    for (uint32_t i = 0; i < c->grants.n; i++) {
        if (!g[i].group == !g[i].user)
            return conf_error(list->items[i], -EINVAL, e, "a grant has either a group or a user");
        if (g[i].tenant && strlen(g[i].tenant) >= AUTH_TENANT_SIZE)
            return conf_error(list->items[i], -EINVAL, e, "the name of the tenant is too long");
    }
    for (uint32_t i = 0; i < c->proxy.from.n; i++)
        if (strcmp(c->proxy.from.v[i], "unix") != 0 && parse_network(c->proxy.from.v[i], &n) < 0)
            return conf_error(conf_get(auth, "proxy"), -EINVAL, e,
                              "from: '%s' is neither an address, a network nor unix", c->proxy.from.v[i]);
    return c->oidc.present ? check_oidc(&c->oidc, conf_get(auth, "oidc"), e) : 0;
}
