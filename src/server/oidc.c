/* SPDX-License-Identifier: Apache-2.0 */
/* Logins with an OpenID provider: those that wait, discovery, and the exchange of the code (oidc.h). */
#include "server/oidc.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/base64.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "net/fetch.h"

enum { ANSWER_MAX = 1 << 20, URL_MAX = 1000, SECRET_SIZE = 65 };
#define LOGIN_LIFE (600 * NS_PER_S)
#define DISCOVERY_LIFE (3600 * NS_PER_S)

struct login {
    char state[OIDC_STATE_SIZE], nonce[SECRET_SIZE], verifier[SECRET_SIZE];
    char redirect[URL_MAX], to[URL_MAX];
    int64_t expires; /* monotonic */
};

struct endpoints {
    char authorization[URL_MAX], token[URL_MAX];
};

struct oidc {
    const struct people_config *config;
    pthread_mutex_t lock; /* protects what follows */
    struct login *logins;
    size_t n, cap;
    struct endpoints endpoints;
    int64_t discovered; /* monotonic; 0: not yet */
};

int oidc_new(const struct people_config *c, struct oidc **ret)
{
    struct oidc *o = mem_zalloc(sizeof *o);

    if (!o)
        return -ENOMEM;
    o->config = c;
    pthread_mutex_init(&o->lock, NULL);
    *ret = o;
    return 0;
}

void oidc_free(struct oidc *o)
{
    if (!o)
        return;
    pthread_mutex_destroy(&o->lock);
    mem_free(o->logins);
    mem_free(o);
}

const struct people_oidc *oidc_config(const struct oidc *o)
{
    return &o->config->oidc;
}

/* --- requests to the provider --- */

struct provider_request {
    const char *url;
    const struct http_header *headers;
    size_t n_headers;
    struct str body;
};

static int ask(const struct oidc *o, const struct provider_request *q, struct buf *out, struct err *e)
{
    struct tls_options tls = {.ca_file = o->config->oidc.ca_file, .http1 = true};
    struct fetch_options f = {.url = q->url,
                              .headers = q->headers,
                              .n_headers = q->n_headers,
                              .body = q->body,
                              .timeout_ns = 10 * NS_PER_S,
                              .max_answer = ANSWER_MAX,
                              .tls = &tls_openssl,
                              .tls_options = &tls};
    struct fetch_result res;
    int r = fetch_url(&f, &res, e);

    if (r == 0 && res.status != 200)
        r = err_set(e, -EACCES, "the provider answered %d: %.*s", res.status, (int) MIN(res.body.n, 300),
                    res.body.p ? res.body.p : "");
    if (r == 0)
        r = fetch_decode(&res, ANSWER_MAX, e);
    if (r == 0) {
        *out = res.body;
        res.body = BUF_INIT;
    }
    fetch_result_done(&res);
    return r;
}

/* The strings of these keys of a JSON object; those that are missing are empty. */
static int read_strings(struct str text, struct arena *a, const char *const *keys, struct str *ret, size_t n,
                        struct err *e)
{
    struct json j;
    struct str key;

    json_init(&j, text, a);
    json_begin_object(&j);
    while (json_next_key(&j, &key)) {
        size_t i = 0;

        while (i < n && !str_is(key, keys[i]))
            i++;
        if (i < n && json_peek(&j) == JSON_STRING)
            ret[i] = json_str(&j);
        else
            json_skip(&j);
    }
    return json_end(&j) < 0 ? json_error(&j, e) : 0;
}

static int keep_url(char ret[URL_MAX], struct str url, const char *issuer, struct err *e)
{
    bool tls = strncmp(issuer, "https://", 8) == 0;

    if (url.n >= URL_MAX || !str_starts(url, tls ? STR("https://") : STR("http://")))
        return err_set(e, -EACCES, "the provider's discovery document has an endpoint without TLS, or none");
    snprintf(ret, URL_MAX, "%.*s", STR_FMT(url));
    return 0;
}

static int discover(struct oidc *o, struct endpoints *ret, struct err *e)
{
    static const char *const keys[] = {"issuer", "authorization_endpoint", "token_endpoint"};
    const char *issuer = o->config->oidc.issuer;
    _cleanup_(buf_done) struct buf url = BUF_INIT, body = BUF_INIT;
    struct str found[ARRAY_SIZE(keys)] = {0};
    struct arena a;
    int r;

    buf_printf(&url, "%s%s.well-known/openid-configuration", issuer, str_ends(str_from(issuer), STR("/")) ? "" : "/");
    r = buf_cstr(&url) ? ask(o, &(struct provider_request){.url = buf_cstr(&url)}, &body, e) : -ENOMEM;
    if (r < 0)
        return r;
    arena_init(&a, ANSWER_MAX);
    r = read_strings(buf_str(&body), &a, keys, found, ARRAY_SIZE(keys), e);
    if (r == 0 && !str_is(found[0], issuer))
        r = err_set(e, -EACCES, "the provider calls itself '%.*s', not '%s': set auth.oidc.issuer", STR_FMT(found[0]),
                    issuer);
    if (r == 0)
        r = keep_url(ret->authorization, found[1], issuer, e);
    if (r == 0)
        r = keep_url(ret->token, found[2], issuer, e);
    arena_done(&a);
    return r;
}

static int endpoints_of(struct oidc *o, struct endpoints *ret, struct err *e)
{
    int64_t now = clock_mono();
    bool known;
    int r;

    pthread_mutex_lock(&o->lock);
    known = o->discovered && now - o->discovered < DISCOVERY_LIFE;
    *ret = o->endpoints;
    pthread_mutex_unlock(&o->lock);
    if (known)
        return 0;
    r = discover(o, ret, e);
    if (r < 0)
        return r;
    pthread_mutex_lock(&o->lock);
    o->endpoints = *ret;
    o->discovered = now;
    pthread_mutex_unlock(&o->lock);
    return 0;
}

/* --- logins that wait --- */

static int random_hex(char ret[SECRET_SIZE])
{
    uint8_t raw[(SECRET_SIZE - 1) / 2];

    if (getrandom(raw, sizeof raw, 0) != (ssize_t) sizeof raw)
        return -EIO;
    *hex_write(ret, raw, sizeof raw) = 0;
    return 0;
}

static int add_login(struct oidc *o, const struct login *l, struct err *e)
{
    int64_t now = clock_mono();
    size_t kept = 0;
    int r;

    pthread_mutex_lock(&o->lock);
    for (size_t i = 0; i < o->n; i++)
        if (o->logins[i].expires > now)
            o->logins[kept++] = o->logins[i];
    o->n = kept;
    if (o->n == OIDC_LOGINS_MAX) /* the oldest gives way: who begins many cannot keep others from logging in for long */
        memmove(o->logins, o->logins + 1, --o->n * sizeof *o->logins);
    r = array_push(o->logins, o->n, o->cap, OIDC_LOGINS_MAX, *l);
    pthread_mutex_unlock(&o->lock);
    return r < 0 ? err_set(e, r, "out of memory") : 0;
}

/* Once: the login is gone afterwards. */
static bool take_login(struct oidc *o, struct str state, struct login *ret)
{
    int64_t now = clock_mono();
    bool found = false;

    pthread_mutex_lock(&o->lock);
    for (size_t i = 0; i < o->n && !found; i++) {
        if (!str_is(state, o->logins[i].state))
            continue;
        *ret = o->logins[i];
        found = ret->expires > now;
        memmove(o->logins + i, o->logins + i + 1, (--o->n - i) * sizeof *o->logins);
        break;
    }
    pthread_mutex_unlock(&o->lock);
    return found;
}

static void put_param(struct buf *b, char sep, const char *name, struct str value)
{
    buf_printf(b, "%c%s=", sep, name);
    http_percent_encode(b, value);
}

/* Base64url of the SHA-256, without padding (RFC 7636). */
static void put_challenge(struct buf *b, const char *verifier)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    uint8_t hash[SHA256_SIZE];

    sha256_of(verifier, strlen(verifier), hash);
    base64_encode(&text, hash, sizeof hash);
    for (size_t i = 0; i < text.n && text.p[i] != '='; i++)
        buf_putc(b, text.p[i] == '+' ? '-' : text.p[i] == '/' ? '_' : text.p[i]);
}

int oidc_begin(struct oidc *o, struct str redirect, struct str to, char ret_state[OIDC_STATE_SIZE], struct buf *ret_url,
               struct err *e)
{
    const struct people_oidc *c = &o->config->oidc;
    struct login l = {.expires = clock_mono() + LOGIN_LIFE};
    struct endpoints at;
    int r = endpoints_of(o, &at, e);

    if (r < 0)
        return r;
    if (redirect.n >= sizeof l.redirect || to.n >= sizeof l.to)
        return err_set(e, -EINVAL, "the path is too long");
    snprintf(l.redirect, sizeof l.redirect, "%.*s", STR_FMT(redirect));
    snprintf(l.to, sizeof l.to, "%.*s", STR_FMT(to));
    if (random_hex(l.state) < 0 || random_hex(l.nonce) < 0 || random_hex(l.verifier) < 0)
        return err_set(e, -EIO, "no random numbers");
    buf_puts(ret_url, at.authorization);
    put_param(ret_url, strchr(at.authorization, '?') ? '&' : '?', "response_type", STR("code"));
    put_param(ret_url, '&', "client_id", str_from(c->client_id));
    put_param(ret_url, '&', "redirect_uri", redirect);
    buf_puts(ret_url, "&scope=");
    for (uint32_t i = 0; i < c->scopes.n; i++) {
        buf_puts(ret_url, i ? "%20" : "");
        http_percent_encode(ret_url, str_from(c->scopes.v[i]));
    }
    put_param(ret_url, '&', "state", str_from(l.state));
    put_param(ret_url, '&', "nonce", str_from(l.nonce));
    buf_puts(ret_url, "&code_challenge_method=S256&code_challenge=");
    put_challenge(ret_url, l.verifier);
    memcpy(ret_state, l.state, sizeof l.state);
    return buf_error(ret_url) ? -ENOMEM : add_login(o, &l, e);
}

/* --- the exchange of the code --- */

static void put_basic(struct buf *out, const struct people_oidc *c)
{
    _cleanup_(buf_done) struct buf pair = BUF_INIT;

    http_percent_encode(&pair, str_from(c->client_id));
    buf_putc(&pair, ':');
    http_percent_encode(&pair, str_from(c->client_secret));
    buf_puts(out, "Basic ");
    base64_encode(out, pair.p, pair.n);
}

static int exchange(struct oidc *o, const struct login *l, struct str code, struct buf *out, struct err *e)
{
    const struct people_oidc *c = &o->config->oidc;
    _cleanup_(buf_done) struct buf form = BUF_INIT, basic = BUF_INIT;
    struct http_header headers[2] = {{STR("content-type"), STR("application/x-www-form-urlencoded")}};
    struct endpoints at;
    int r = endpoints_of(o, &at, e);

    if (r < 0)
        return r;
    buf_puts(&form, "grant_type=authorization_code");
    put_param(&form, '&', "code", code);
    put_param(&form, '&', "redirect_uri", str_from(l->redirect));
    put_param(&form, '&', "code_verifier", str_from(l->verifier));
    put_param(&form, '&', "client_id", str_from(c->client_id));
    if (c->client_secret)
        put_basic(&basic, c);
    headers[1] = (struct http_header){STR("authorization"), buf_str(&basic)};
    if (buf_error(&form) || buf_error(&basic))
        return -ENOMEM;
    return ask(o, &(struct provider_request){at.token, headers, c->client_secret ? 2 : 1, buf_str(&form)}, out, e);
}

int oidc_finish(struct oidc *o, const struct oidc_answer *q, struct arena *a, struct auth_identity *ret,
                struct str *ret_to, struct err *e)
{
    static const char *const keys[] = {"id_token"};
    _cleanup_(buf_done) struct buf answer = BUF_INIT;
    struct oidc_claims claims;
    struct str token = {0};
    struct login l;
    int r;

    if (!take_login(o, q->state, &l))
        return err_set(e, -EACCES,
                       "this login was not begun here, or took longer than ten minutes; begin again at /oidc/login");
    r = exchange(o, &l, q->code, &answer, e);
    if (r == 0)
        r = read_strings(buf_str(&answer), a, keys, &token, 1, e);
    if (r == 0)
        r = oidc_claims_read(&(struct oidc_expected){&o->config->oidc, l.nonce, clock_wall()}, token, a, &claims, e);
    if (r < 0)
        return r;
    *ret_to = arena_str(a, str_from(l.to));
    if (people_identify(o->config, claims.user, claims.groups, ret) < 0)
        return err_set(e, -EACCES, "%.*s is known, but no grant fits: ask the administrator (auth.grants)",
                       STR_FMT(claims.user));
    return 0;
}
