/* SPDX-License-Identifier: Apache-2.0 */
/* /docs: the documents of this version, which tools/docs makes pages of at build time. They hold no data and need no token. */
#include <errno.h>

#include "server/api.h"
#include "server/assets.h"
#include "server/front.h"

static int run_docs(struct call *c, struct err *e)
{
    struct str path = c->q->path;

    if (str_is(path, "/docs/"))
        path = STR("/docs/index.html");
    for (const struct asset *a = docs_table; a->path; a++)
        if (str_is(path, a->path))
            return asset_answer(a, c->q);
    return err_set(e, -ENOENT, "there is no such document; /docs/ lists them");
}

/* Links of the pages are relative to the folder. */
static int run_folder(struct call *c, struct err *e)
{
    (void) e;
    c->q->status = 302;
    http_add_header(c->q, "location", STR("docs/"));
    return 0;
}

static const struct route routes[] = {
    {"GET", "/docs", AUTH_NONE, true, run_folder},
    {"GET", "/docs/*", AUTH_NONE, true, run_docs},
};

int api_mount_docs(struct front *f)
{
    return front_mount(f, routes, ARRAY_SIZE(routes));
}
