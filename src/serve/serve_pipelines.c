/* SPDX-License-Identifier: Apache-2.0 */
/* Starts the pipelines that wick.yaml defines. See serve_pipelines.h. */
#include "serve/serve_pipelines.h"

#include <errno.h>

#include "base/log.h"
#include "base/metrics.h"
#include "conf/yaml.h"
#include "pipeline/graph/flow.h"

static void warn(void *arg, const char *message)
{
    (void) arg;
    log_warn("%s", message);
}

int serve_pipelines_start(struct conf *c, const struct flow_inject *sinks, struct flow **ret, struct err *e)
{
    struct flow_inject inject = {0};
    _cleanup_(flow_freep) struct flow *f = NULL;
    struct plan *p = NULL;
    int r;

    if (!c->root || !conf_get(c->root, "service"))
        return 0;
    r = plan_read_part(c, warn, NULL, &p, e);
    if (r < 0 || !sinks)
        return r;
    inject = *sinks;
    inject.n_loops = 1;
    r = flow_new(p, &inject, &f, e);
    if (r == 0)
        r = flow_start(f, e);
    if (r == 0)
        *ret = TAKE(f);
    return r;
}

void serve_pipelines_stop(struct flow *f)
{
    if (!f)
        return;
    flow_stop(f);
    flow_free(f);
}

void serve_pipelines_metrics(struct flow *f, struct buf *out)
{
    if (f)
        metrics_print(flow_metrics(f), out);
}
