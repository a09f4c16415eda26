/* SPDX-License-Identifier: Apache-2.0 */
/* The claims of an ID token (oidc.h): a JWT, three parts in base64url with dots between them. */
#include <errno.h>
#include <string.h>

#include "base/base64.h"
#include "base/clock.h"
#include "base/json.h"
#include "server/oidc.h"

enum { TOKEN_MAX = 64 << 10, GROUPS_MAX = 1000 };
static const int64_t leeway = 60; /* seconds that clocks may differ by */

struct claims {
    struct str issuer, subject, nonce, user, party;
    int64_t expires, issued;
    bool for_us, is_unverified; /* is_unverified: the provider has not checked that the address is the person's */
    uint32_t audiences;
    struct buf groups;
};

static int decode_part(struct str part, struct arena *a, struct str *ret)
{
    char *text = part.n && part.n <= TOKEN_MAX ? arena_alloc(a, base64_decoded_max(part)) : NULL;
    ssize_t n = text ? base64_decode(part, text) : -EINVAL;

    if (n < 0)
        return -EINVAL;
    *ret = (struct str){text, (uint32_t) n};
    return 0;
}

static void read_audience(struct json *j, const char *id, struct claims *c)
{
    if (json_peek(j) == JSON_STRING) {
        c->for_us = str_is(json_str(j), id);
        c->audiences = 1;
        return;
    }
    json_begin_array(j);
    while (json_next_item(j)) {
        c->for_us |= str_is(json_str(j), id);
        c->audiences++;
    }
}

/* Seconds, in a range in which they can be compared with the clock. */
static int64_t seconds_of(struct json *j)
{
    double x = json_double(j);

    return x > 0 && x < 1e15 ? (int64_t) x : 0;
}

/* A name with a comma would be two. */
static void add_group(struct buf *out, struct str name)
{
    if (str_find_char(name, ',') < 0 && name.n)
        buf_printf(out, "%s%.*s", out->n ? "," : "", STR_FMT(name));
}

static void read_groups(struct json *j, struct buf *out)
{
    uint32_t n = 0;

    if (json_peek(j) == JSON_STRING) {
        add_group(out, json_str(j));
        return;
    }
    if (json_peek(j) != JSON_ARRAY) {
        json_skip(j);
        return;
    }
    json_begin_array(j);
    while (json_next_item(j)) {
        if (json_peek(j) != JSON_STRING || ++n > GROUPS_MAX)
            json_skip(j);
        else
            add_group(out, json_str(j));
    }
}

static struct str text_of(struct json *j)
{
    if (json_peek(j) == JSON_STRING)
        return json_str(j);
    json_skip(j);
    return (struct str){0};
}

/* Some providers write it as text. */
static bool is_false(struct json *j)
{
    if (json_peek(j) == JSON_STRING)
        return str_is(json_str(j), "false");
    if (json_peek(j) == JSON_BOOL)
        return !json_bool(j);
    json_skip(j);
    return false;
}

static void read_claim(struct json *j, struct str key, const struct people_oidc *o, struct claims *c)
{
    bool is_groups = str_is(key, o->groups_claim), is_user = str_is(key, o->user_claim);

    if (str_is(key, "iss"))
        c->issuer = text_of(j);
    else if (str_is(key, "aud"))
        read_audience(j, o->client_id, c);
    else if (str_is(key, "azp"))
        c->party = text_of(j);
    else if (str_is(key, "exp"))
        c->expires = seconds_of(j);
    else if (str_is(key, "iat"))
        c->issued = seconds_of(j);
    else if (str_is(key, "nonce"))
        c->nonce = text_of(j);
    else if (str_is(key, "email_verified"))
        c->is_unverified = is_false(j);
    else if (is_groups)
        read_groups(j, &c->groups);
    else if (is_user || str_is(key, "sub"))
        *(is_user ? &c->user : &c->subject) = text_of(j);
    else
        json_skip(j);
}

static int check(const struct claims *c, const struct oidc_expected *x, struct err *e)
{
    const struct people_oidc *o = x->config;
    int64_t now = x->now / NS_PER_S;

    if (!str_is(c->issuer, o->issuer))
        return err_set(e, -EACCES, "the ID token is of another issuer: '%.*s'",
                       STR_FMT(str_slice(c->issuer, 0, MIN(c->issuer.n, 200))));
    if (!c->for_us || (c->audiences > 1 && !str_is(c->party, o->client_id)) ||
        (c->party.n && !str_is(c->party, o->client_id)))
        return err_set(e, -EACCES, "the ID token is for another client");
    if (now > c->expires + leeway)
        return err_set(e, -EACCES, "the ID token has expired; are the clocks of server and provider right?");
    if (c->issued > now + leeway)
        return err_set(e, -EACCES, "the ID token is of the future; are the clocks of server and provider right?");
    if (!c->nonce.n || !str_is(c->nonce, x->nonce))
        return err_set(e, -EACCES, "the ID token is of another login");
    return c->subject.n ? 0 : err_set(e, -EACCES, "the ID token has no subject");
}

int oidc_claims_read(const struct oidc_expected *x, struct str token, struct arena *a, struct oidc_claims *ret,
                     struct err *e)
{
    struct str header = str_cut(&token, '.'), payload = str_cut(&token, '.'), text = {0}, key;
    struct claims c = {.groups = BUF_INIT};
    struct json j;
    int r = header.n && token.n ? decode_part(payload, a, &text) : -EINVAL;

    if (r < 0)
        return err_set(e, -EACCES, "the ID token is not a JWT");
    json_init(&j, text, a);
    json_begin_object(&j);
    while (json_next_key(&j, &key))
        read_claim(&j, key, x->config, &c);
    r = json_end(&j) < 0 ? err_set(e, -EACCES, "the ID token is not a JWT") : check(&c, x, e);
    if (c.is_unverified && strcmp(x->config->user_claim, "email") == 0)
        c.user = (struct str){0};
    if (r == 0) {
        ret->user = arena_str(a, c.user.n ? c.user : c.subject);
        ret->groups = arena_str(a, buf_str(&c.groups));
        r = buf_error(&c.groups) || !ret->user.p ? -ENOMEM : 0;
    }
    buf_done(&c.groups);
    return r;
}
