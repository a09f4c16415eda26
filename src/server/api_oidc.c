/* SPDX-License-Identifier: Apache-2.0 */
/* GET /oidc/login and /oidc/callback: the browser's side of a login with an OpenID provider (oidc.h). */
#include <errno.h>

#include "net/http.h"
#include "server/api.h"
#include "server/front.h"
#include "server/oidc.h"

#define COOKIE "wick_oidc"

/* The path that a login returns to: of this server, never of another ("//host" and "/\host" are others). */
static struct str safe_path(struct str to)
{
    if (!to.n || to.p[0] != '/' || (to.n > 1 && (to.p[1] == '/' || to.p[1] == '\\')))
        return STR("/");
    for (uint32_t i = 0; i < to.n; i++)
        if ((unsigned char) to.p[i] <= ' ' || to.p[i] == '\\' || (unsigned char) to.p[i] >= 0x7f)
            return STR("/");
    return to;
}

/* By the name that the browser uses, which is one of listen.hosts; behind a proxy that ends TLS, by ui.url. */
static struct str callback_url(struct call *c)
{
    const struct front_options *o = front_options(c->front);
    struct str host = c->q->authority.n ? c->q->authority : http_headers_get(&c->q->headers, "host");
    struct str base = str_from(o->public_url ? o->public_url : "");
    char *text;

    while (str_ends(base, STR("/")))
        base.n--;
    text = base.n ? arena_printf(&c->q->arena, "%.*s/oidc/callback", STR_FMT(base))
                  : arena_printf(&c->q->arena, "%s://%.*s/oidc/callback", c->q->tls ? "https" : "http", STR_FMT(host));
    return str_from(text ? text : "");
}

static bool is_secure(struct call *c)
{
    const char *url = front_options(c->front)->public_url;

    return c->q->tls || (url && str_starts(str_from(url), STR("https://")));
}

static int redirect(struct call *c, struct str to)
{
    c->q->status = 302;
    http_add_header(c->q, "cache-control", STR("no-store"));
    return http_add_header(c->q, "location", to);
}

static int set_cookie(struct call *c, const char *name, const char *value, const char *more)
{
    char *text = arena_printf(&c->q->arena, "%s=%s; %s; HttpOnly%s", name, value, more, is_secure(c) ? "; Secure" : "");

    return text ? http_add_header(c->q, "set-cookie", str_from(text)) : -ENOMEM;
}

/* Lax: the provider's redirect is a navigation from another site. */
static int run_begin(struct call *c, struct err *e)
{
    struct oidc *o = front_options(c->front)->oidc;
    _cleanup_(buf_done) struct buf url = BUF_INIT;
    char state[OIDC_STATE_SIZE];
    int r;

    if (!o)
        return err_set(e, -ENOENT, "this server has no OpenID provider (auth.oidc)");
    r = oidc_begin(o, callback_url(c), safe_path(call_param(c, "to")), state, &url, e);
    if (r == 0)
        r = set_cookie(c, COOKIE, state, "Path=/oidc/; Max-Age=600; SameSite=Lax");
    return r < 0 ? r : redirect(c, buf_str(&url));
}

static int run_callback(struct call *c, struct err *e)
{
    struct oidc *o = front_options(c->front)->oidc;
    struct auth *auth = front_options(c->front)->auth;
    struct oidc_answer q = {call_param(c, "state"), call_param(c, "code")};
    struct str why = call_param(c, "error"), more = call_param(c, "error_description"), to;
    char session[AUTH_SESSION_SIZE];
    int r;

    if (!o)
        return err_set(e, -ENOENT, "this server has no OpenID provider (auth.oidc)");
    if (!q.state.n || !str_eq(q.state, http_cookie(&c->q->headers, COOKIE)))
        return err_set(e, -EACCES, "this login was begun in another browser; begin again at /oidc/login");
    if (why.n || !q.code.n)
        return err_set(e, -EACCES, "the provider refused the login: %.*s %.*s", STR_FMT(why), STR_FMT(more));
    r = oidc_finish(o, &q, &c->q->arena, &c->who, &to, e);
    if (r == 0)
        r = auth_login_person(auth, &c->who, oidc_config(o)->session, session, e);
    if (r == 0)
        r = set_cookie(c, COOKIE, "", "Path=/oidc/; Max-Age=0; SameSite=Lax");
    if (r == 0)
        r = set_cookie(c, auth_cookie(auth), session, "Path=/; SameSite=Strict");
    return r < 0 ? r : redirect(c, to);
}

static const struct route routes[] = {
    {"GET", "/oidc/login", AUTH_NONE, .run = run_begin, .own_thread = true},
    {"GET", "/oidc/callback", AUTH_NONE, .run = run_callback, .own_thread = true, .audited = true},
};

int api_mount_oidc(struct front *f)
{
    return front_mount(f, routes, ARRAY_SIZE(routes));
}
