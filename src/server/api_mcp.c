/* SPDX-License-Identifier: Apache-2.0 */
/* /mcp: the Model Context Protocol over HTTP (its "streamable HTTP" transport with single JSON answers, no
 * sessions). */
#include <errno.h>

#include "alert/alert.h"
#include "server/api.h"
#include "server/api_query.h"
#include "server/front.h"
#include "server/mcp.h"

static int ask(void *ctx, const struct question *what, struct str (*param)(void *, const char *), void *pctx,
               struct buf *out, struct err *e)
{
    struct answer_request q = call_request(ctx);

    q.param = param;
    q.ctx = pctx;
    return answer(what, &q, out, e);
}

static int list_alerts(void *ctx, struct buf *out, struct err *e)
{
    struct call *c = ctx;

    (void) e;
    return alerts_json(front_options(c->front)->alerts, c->who.tenant, out);
}

static int run_mcp(struct call *c, struct err *e)
{
    struct mcp m = {ask, c, front_options(c->front)->alerts ? list_alerts : NULL};

    (void) e;
    mcp_handle(&m, c->q->body, &c->out);
    if (!c->out.n)
        c->q->status = 202; /* a notification was accepted */
    return 0;
}

/* A server that pushes nothing answers GET with 405; the router does that. */
static const struct route routes[] = {
    {"POST", "/mcp", AUTH_READ, false, run_mcp},
};

int api_mount_mcp(struct front *f)
{
    return front_mount(f, routes, ARRAY_SIZE(routes));
}
