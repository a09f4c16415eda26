/* SPDX-License-Identifier: Apache-2.0 */
/* Serves the files of the web UI out of the table in the binary: lookup by path, ETags, gzip, and the security headers
 * of pages. See assets.h. */
#include "server/assets.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>

#include "base/compress.h"
#include "net/encoding.h"
#include "net/server.h"
#include "server/api.h"
#include "server/front.h"

/* Everything is loaded from this server, no inline script runs, and no other page may embed this one in a frame. data:
 * and blob: are for images that a page draws itself. */
#define PAGE_POLICY                                                                                             \
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; " \
    "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

static const struct asset *find_exact(struct str path)
{
    for (const struct asset *a = assets_table; a->path; a++)
        if (str_is(path, a->path))
            return a;
    return NULL;
}

/* /explore, /compare: not a file but a location that the UI's own router handles (web/src/main.js). */
static bool is_place(struct str path)
{
    static const char *const places[] = {"/",         "/home",     "/start",   "/services", "/explore", "/flamegraph",
                                         "/function", "/compare",  "/senders", "/sources",  "/spans",   "/trace",
                                         "/alerts",   "/settings", "/login",   "/files"};

    for (size_t i = 0; i < ARRAY_SIZE(places); i++)
        if (str_is(path, places[i]))
            return true;
    return false;
}

const struct asset *asset_find(struct str path)
{
    const struct asset *a = find_exact(path);

    return a || !is_place(path) ? a : find_exact(STR("/index.html"));
}

void asset_page_headers(struct http_request *q)
{
    http_add_header(q, "content-security-policy", STR(PAGE_POLICY));
    http_add_header(q, "x-content-type-options", STR("nosniff"));
    http_add_header(q, "x-frame-options", STR("DENY"));
    http_add_header(q, "referrer-policy", STR("no-referrer"));
    http_add_header(q, "cross-origin-opener-policy", STR("same-origin"));
    http_add_header(q, "cross-origin-resource-policy", STR("same-origin"));
}

/* True if one of the client's tags matches. Weak tags match too: the bytes sent are the same or their gzip form. */
static bool is_current(struct str tags, const char *etag)
{
    return tags.p && (str_is(str_trim(tags), "*") || str_find(tags, str_from(etag)) >= 0);
}

int asset_answer(const struct asset *a, struct http_request *q)
{
    bool for_ever = str_is(http_query_get(q->query, &q->arena, "v"), a->etag);
    char tag[64];

    snprintf(tag, sizeof tag, "\"%s\"", a->etag);
    asset_page_headers(q);
    http_add_header(q, "etag", str_from(tag));
    http_add_header(q, "vary", STR("accept-encoding"));
    http_add_header(q, "cache-control", for_ever ? STR("public, max-age=31536000, immutable") : STR("no-cache"));
    if (is_current(http_headers_get(&q->headers, "if-none-match"), tag)) {
        q->status = 304;
        return 0;
    }
    http_add_header(q, "content-type", str_from(a->content_type));
    if (http_accepts_gzip(&q->headers)) {
        http_add_header(q, "content-encoding", STR("gzip"));
        q->answer_const = (struct str){(const char *) a->gzip, (uint32_t) a->gzip_size};
        return 0;
    }
    return compress_inflate(COMPRESS_GZIP, a->gzip, a->gzip_size, a->size, &q->answer, NULL);
}

/* /trace/ID, as trace viewers write links: the pages are one segment deep. */
static bool is_trace(struct str path)
{
    struct str id = str_slice(path, sizeof "/trace/" - 1, path.n);

    if (!str_starts(path, STR("/trace/")) || id.n != 32)
        return false;
    for (uint32_t i = 0; i < id.n; i++)
        if (!isxdigit((unsigned char) id.p[i]))
            return false;
    return true;
}

/* A person who follows a link to nowhere gets the UI's page that says so, and programs an error. The page is one segment
 * deep, as its own files are named relative to it. */
static int no_page(struct call *c, struct err *e)
{
    struct str path = c->q->path, accept = http_headers_get(&c->q->headers, "accept");
    const struct asset *page = find_exact(STR("/index.html"));
    int r;

    if (!page || str_find(accept, STR("text/html")) < 0 || str_find(str_slice(path, 1, path.n), STR("/")) >= 0)
        return err_set(e, -ENOENT, "not found");
    r = asset_answer(page, c->q);
    c->q->status = 404;
    return r;
}

static int run_asset(struct call *c, struct err *e)
{
    const struct asset *a = asset_find(c->q->path);
    struct str path = c->q->path;

    if (a)
        return asset_answer(a, c->q);
    if (!is_trace(path))
        return no_page(c, e);
    c->q->status = 302;
    http_add_header(c->q, "location",
                    str_from(arena_printf(&c->q->arena, "../trace?trace=%.*s", 32, path.p + path.n - 32)));
    return 0;
}

static const struct route routes[] = {
    {"GET", "/*", AUTH_NONE, true, run_asset},
};

int api_mount_ui(struct front *f)
{
    return front_mount(f, routes, ARRAY_SIZE(routes));
}
