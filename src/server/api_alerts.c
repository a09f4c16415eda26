/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1/alerts: the rules and alerts of the caller's tenant, trying, adding and changing rules, and a rule for what a person looks
 * at. */
#include <errno.h>
#include <sys/random.h>

#include "alert/alert.h"
#include "alert/alert_definition.h"
#include "alert/alert_json.h"
#include "base/bytes.h"
#include "base/json.h"
#include "server/api.h"
#include "server/front.h"
#include "server/kept_rules.h"

enum { ID_BYTES = 8 };

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

/* --- rules that are kept by the server --- */

static const struct record_field definition_list[] = {
    {"rules", RECORD_LIST, 0, KEPT_RULES_MAX, .fields = alert_definition_fields,
     .size = sizeof(struct alert_definition)},
    {0},
};
static const struct record_field id_fields[] = {
    {"id", RECORD_STR, 0},
    {0},
};

static int run_definitions(struct call *c, struct err *e)
{
    struct kept_list l;
    int r = kept_alerts_list(front_options(c->front)->rules, str_from(c->who.tenant), &l);

    if (r < 0)
        return err_set(e, r, "cannot list the rules: %m");
    record_put(&c->out, definition_list, &l.rules);
    kept_list_done(&l);
    return 0;
}

static int read_definition(struct call *c, struct alert_definition *ret, struct err *e)
{
    *ret = (struct alert_definition){0};
    ret->tenant = str_from(c->who.tenant);
    return record_read(c->q->body, alert_definition_fields, RECORD_CLIENT, &c->q->arena, ret, e);
}

static int run_try(struct call *c, struct err *e)
{
    struct alert_definition d;
    struct alerts *a = NULL;
    int r = get_alerts(c, &a, e);

    if (r == 0)
        r = read_definition(c, &d, e);
    return r < 0 ? r : alerts_try(a, &d, &c->cancel, &c->out, e);
}

static int run_define(struct call *c, struct err *e)
{
    bool replace = c->path_arg.n;
    uint8_t id[ID_BYTES] = {0};
    char text[2 * ID_BYTES + 1];
    struct alert_definition d;
    int r = read_definition(c, &d, e);

    if (r < 0)
        return r;
    if (!replace && getrandom(id, sizeof id, 0) != (ssize_t) sizeof id)
        return err_set(e, -EIO, "cannot get random bytes for an ID");
    *hex_write(text, id, sizeof id) = 0;
    d.id = replace ? c->path_arg : str_from(text);
    r = kept_alerts_put(front_options(c->front)->rules, &d, replace, e);
    if (r == 0)
        record_put(&c->out, id_fields, &d.id);
    return r;
}

static int run_undefine(struct call *c, struct err *e)
{
    int r = kept_alerts_remove(front_options(c->front)->rules, str_from(c->who.tenant), c->path_arg, e);

    if (r == 0)
        buf_puts(&c->out, "{}");
    return r;
}

static const struct route routes[] = {
    {"GET", "/api/v1/alerts", AUTH_READ, false, run_list, .answer = alerts_answer_fields},
    {"GET", "/api/v1/alerts/rule", AUTH_READ, false, run_rule},
    {"GET", "/api/v1/alerts/rules", AUTH_READ, .run = run_definitions, .answer = definition_list},
    {"POST", "/api/v1/alerts/try", AUTH_READ, .run = run_try, .body = alert_definition_fields,
     .answer = alerts_tested_fields},
    /* senders have tokens of scope write: one that was stolen must not silence alerts */
    {"POST", "/api/v1/alerts/rules", AUTH_ADMIN, .run = run_define, .body = alert_definition_fields,
     .answer = id_fields},
    {"PUT", "/api/v1/alerts/rules/{id}", AUTH_ADMIN, .run = run_define, .body = alert_definition_fields,
     .answer = id_fields},
    {"DELETE", "/api/v1/alerts/rules/{id}", AUTH_ADMIN, .run = run_undefine},
    /* it connects to receivers, so that it runs only when a person asks, and not from another site's page */
    {"POST", "/api/v1/alerts/test", AUTH_ADMIN, .run = run_test, .own_thread = true, .answer = alerts_tested_fields},
};

int api_mount_alerts(struct front *f)
{
    return front_mount(f, routes, ARRAY_SIZE(routes));
}
