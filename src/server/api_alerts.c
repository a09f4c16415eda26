/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1/alerts: the rules and alerts of the caller's tenant, trying rules out, and a rule for what a person looks at. */
#include <errno.h>

#include "alert/alert.h"
#include "alert/alert_json.h"
#include "base/json.h"
#include "server/api.h"
#include "server/front.h"

static int get_alerts(struct call *c, struct alerts **ret, struct err *e)
{
    *ret = front_options(c->front)->alerts;
    return *ret ? 0 : err_set(e, -ENOENT, "this server has no alerts");
}

static int run_list(struct call *c, struct err *e)
{
    struct alerts *a = NULL;
    int r = get_alerts(c, &a, e);

    return r < 0 ? r : alerts_json(a, c->who.tenant, &c->out);
}

static int run_test(struct call *c, struct err *e)
{
    struct alerts_test t = {.tenant = c->who.tenant,
                            .rule = call_param(c, "rule"),
                            .send = str_is(call_param(c, "send"), "true"),
                            .cancel = &c->cancel};
    struct alerts *a = NULL;
    int r = get_alerts(c, &a, e);

    return r < 0 ? r : alerts_test(a, &t, &c->out, e);
}

static int run_rule(struct call *c, struct err *e)
{
    _cleanup_(buf_done) struct buf yaml = BUF_INIT;
    int r = alert_rule_yaml(call_param(c, "query"), call_param(c, "function"), call_param(c, "type"), &yaml, e);

    if (r < 0)
        return r;
    buf_puts(&c->out, "{\"yaml\":");
    json_put_str(&c->out, buf_str(&yaml));
    buf_puts(&c->out, "}\n");
    return 0;
}

static const struct route routes[] = {
    {"GET", "/api/v1/alerts", AUTH_READ, false, run_list, .answer = alerts_answer_fields},
    {"GET", "/api/v1/alerts/rule", AUTH_READ, false, run_rule},
    /* it connects to receivers, so that it runs only when a person asks, and not from another site's page */
    {"POST", "/api/v1/alerts/test", AUTH_ADMIN, .run = run_test, .own_thread = true, .answer = alerts_tested_fields},
};

int api_mount_alerts(struct front *f)
{
    return front_mount(f, routes, ARRAY_SIZE(routes));
}
