/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/v1/scrape/find and /api/v1/scrape: programs of this machine that serve /debug/pprof/, and scraping one of them. Both are
 * POST: they connect to other programs, so that they run only when a person asks, and not from another site's page.
 */
#include <errno.h>

#include "base/json.h"
#include "server/api.h"
#include "server/front.h"
#include "server/scraping.h"

static int get_scraping(struct call *c, const struct scraping **ret, struct err *e)
{
    *ret = front_options(c->front)->scraping;
    return *ret ? 0 : err_set(e, -ENOENT, "this server does not scrape");
}

static int run_find(struct call *c, struct err *e)
{
    const struct scraping *s = NULL;
    int r = get_scraping(c, &s, e);

    return r < 0 ? r : s->find(s->ctx, &c->out, e);
}

static int run_add(struct call *c, struct err *e)
{
    const struct scraping *s = NULL;
    struct str url = call_param(c, "url");
    char *text = arena_cstr(&c->q->arena, url);
    int r = get_scraping(c, &s, e);

    if (r == 0 && !url.n)
        r = err_set(e, -EINVAL, "the parameter url is required");
    if (r == 0 && !text)
        r = -ENOMEM;
    if (r == 0)
        r = s->add(s->ctx, text, e);
    if (r < 0)
        return r;
    buf_puts(&c->out, "{\"url\":");
    json_put_str(&c->out, url);
    buf_puts(&c->out, "}");
    return 0;
}

static const struct route routes[] = {
    {"POST", "/api/v1/scrape/find", AUTH_ADMIN, .run = run_find, .host = true, .own_thread = true},
    {"POST", "/api/v1/scrape", AUTH_ADMIN, .run = run_add, .host = true, .own_thread = true},
};

int api_mount_scrape(struct front *f)
{
    return front_mount(f, routes, ARRAY_SIZE(routes));
}
