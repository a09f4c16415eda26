/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pyroscope's RecordingRulesService, see pyroscope.h: rules of clients (kept_rules.h), and those of the configuration
 * as provisioned ones. A rule becomes wick_function_cores{rule="METRIC_NAME",…} and the like on /metrics. Such metrics can be by
 * service and have no further labels: group_by of anything but service_name, and external_labels, are refused.
 */
#include <errno.h>

#include "alert/alert.h"
#include "base/regex.h"
#include "server/kept_rules.h"
#include "server/pyroscope.h"

enum { ID_LETTERS = 10, ID_MAX = 100, METRIC_MAX = 200 };

static struct kept_rules *rules_of(struct call *c)
{
    return front_options(c->front)->rules;
}

static void put_rule(struct pbjson *w, struct arena *a, const struct recording_rule *r, bool provisioned)
{
    struct type t = {0};
    ptrdiff_t brace = str_find_char(r->selector, '{');

    type_by_name(brace < 0 ? r->selector : str_slice(r->selector, 0, (size_t) brace), &t);
    pbjson_str(w, 1, "id", r->id);
    pbjson_str(w, 2, "metricName", r->metric);
    pbjson_str(w, 3, "profileType", py_type_id(a, &t));
    pbjson_list(w, "matchers");
    for (uint32_t i = 0; i < r->matchers.n; i++)
        pbjson_str(w, 4, NULL, ((const struct str *) r->matchers.v)[i]);
    pbjson_list_end(w);
    pbjson_list(w, "groupBy");
    if (r->by_service)
        pbjson_str(w, 5, NULL, STR("service_name"));
    pbjson_list_end(w);
    pbjson_i64(w, 7, "generation", r->generation);
    if (r->function.n) {
        pbjson_begin(w, 8, "stacktraceFilter");
        pbjson_begin(w, 1, "functionName");
        pbjson_str(w, 1, "functionName", r->function);
        pbjson_end(w);
        pbjson_end(w);
    }
    if (provisioned)
        pbjson_bool(w, 9, "provisioned", true);
}

/* Letters, as Pyroscope's ids are. */
static struct str make_id(struct arena *a, struct id128 from)
{
    char *id = arena_zalloc(a, ID_LETTERS + 1);

    for (int i = 0; id && i < ID_LETTERS; i++) {
        uint64_t v = i < 5 ? from.hi >> i * 12 : from.lo >> (i - 5) * 12;

        id[i] = (char) ('A' + v % 26);
    }
    return id ? (struct str){id, ID_LETTERS} : (struct str){0};
}

/* --- rules of the configuration --- */

struct provisioned {
    struct call *call;
    struct pbjson *w;
    struct str id; /* only this one; empty: all */
    uint32_t n;
};

static int put_provisioned(void *ctx, const struct alert_recording *x, const struct alert_source *s)
{
    struct provisioned *p = ctx;
    struct arena *a = &p->call->q->arena;
    struct recording_rule r = {.metric = str_from(x->name), .selector = str_from(s->selector), .by_service = s->each};
    const char *key = arena_printf(a, "%s\n%s\n%s", x->name, s->selector, x->function ? x->function : "");
    ptrdiff_t brace = str_find_char(r.selector, '{');
    struct str matcher;

    if (!key)
        return -ENOMEM;
    r.id = make_id(a, hash128(key, strlen(key)));
    r.function = str_from(x->function ? x->function : "");
    if (brace >= 0) {
        matcher = str_slice(r.selector, (size_t) brace, r.selector.n);
        r.matchers = (struct record_list){&matcher, 1};
    }
    if (p->id.n && !str_eq(p->id, r.id))
        return 0;
    p->n++;
    if (p->id.n)
        pbjson_begin(p->w, 1, "rule");
    else
        pbjson_begin(p->w, 1, NULL);
    put_rule(p->w, a, &r, true);
    pbjson_end(p->w);
    return 0;
}

/* --- methods --- */

int py_rules_list(struct call *c, struct py_request *r, struct pbjson *w, struct err *e)
{
    struct provisioned p = {.call = c, .w = w};
    struct kept_list l;
    int result;

    (void) r;
    (void) e;
    pbjson_list(w, "rules");
    result = alerts_each_recording(front_options(c->front)->alerts, c->who.tenant, put_provisioned, &p);
    if (result == 0)
        result = kept_recordings_list(rules_of(c), str_from(c->who.tenant), &l);
    if (result < 0)
        return result;
    for (uint32_t i = 0; i < l.rules.n; i++) {
        pbjson_begin(w, 1, NULL);
        put_rule(w, &c->q->arena, &((const struct recording_rule *) l.rules.v)[i], false);
        pbjson_end(w);
    }
    pbjson_list_end(w);
    kept_list_done(&l);
    return 0;
}

int py_rules_get(struct call *c, struct py_request *r, struct pbjson *w, struct err *e)
{
    struct provisioned p = {.call = c, .w = w, .id = str_trim(r->name)};
    struct kept_list l;
    int result;

    if (!p.id.n)
        return err_set(e, -EINVAL, "id is required");
    result = alerts_each_recording(front_options(c->front)->alerts, c->who.tenant, put_provisioned, &p);
    if (result < 0 || p.n)
        return result;
    result = kept_recordings_list(rules_of(c), str_from(c->who.tenant), &l);
    if (result < 0)
        return result;
    result = err_set(e, -ENOENT, "no rule with id='%.*s' found", STR_FMT(p.id));
    for (uint32_t i = 0; i < l.rules.n; i++)
        if (str_eq(((const struct recording_rule *) l.rules.v)[i].id, p.id)) {
            pbjson_begin(w, 1, "rule");
            put_rule(w, &c->q->arena, &((const struct recording_rule *) l.rules.v)[i], false);
            pbjson_end(w);
            result = 0;
        }
    kept_list_done(&l);
    return result;
}

static bool is_metric_name(struct str s)
{
    for (uint32_t i = 0; i < s.n; i++) {
        char c = s.p[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == ':' || (i && c >= '0' && c <= '9')))
            return false;
    }
    return s.n && s.n <= METRIC_MAX;
}

static bool is_id(struct str s)
{
    for (uint32_t i = 0; i < s.n; i++)
        if (!((s.p[i] >= 'a' && s.p[i] <= 'z') || (s.p[i] >= 'A' && s.p[i] <= 'Z')))
            return false;
    return s.n <= ID_MAX;
}

/* Adds the matchers of one selector to `all`; the profile type becomes its type. */
static int add_matchers(struct selector *all, const struct selector *s, struct err *e)
{
    for (uint32_t i = 0; i < s->n; i++) {
        const struct matcher *m = &s->v[i];
        struct type t = {0};

        if (str_is(m->name, "__profile_type__")) {
            if (all->type.n || m->op != MATCH_EQ)
                return err_set(e, -EINVAL, "matchers must contain one __profile_type__ matcher, with =");
            if (py_counts(m->value))
                return err_set(e, -ENOSYS, "recording rules for counts of samples are not supported by wick");
            type_by_name(m->value, &t);
            all->type = t.name;
        } else if (str_starts(m->name, STR("__")) && !str_is(m->name, "__service_name__")) {
            return err_set(e, -ENOSYS, "a matcher on %.*s is not supported by wick", STR_FMT(m->name));
        } else {
            all->v[all->n++] = *m;
        }
    }
    return 0;
}

/* The matchers of the request as one selector in wick's form. */
static int make_selector(struct arena *a, const struct pbjson_strs *matchers, struct str *ret, struct err *e)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    struct selector all = {.v = arena_zalloc_array(a, 65 * RECORDING_MATCHERS_MAX, sizeof *all.v)};
    int r = all.v ? 0 : -ENOMEM;

    if (matchers->n > RECORDING_MATCHERS_MAX)
        return err_set(e, -EINVAL, "at most %d matchers", RECORDING_MATCHERS_MAX);
    for (uint32_t i = 0; r == 0 && i < matchers->n; i++) {
        struct selector one;

        r = selector_parse(matchers->v[i], a, &one, e);
        if (r < 0)
            break;
        r = one.type.n ? err_set(e, -EINVAL, "matcher '%.*s' is invalid", STR_FMT(matchers->v[i]))
                       : add_matchers(&all, &one, e);
        selector_done(&one); /* what was copied is only printed */
    }
    if (r == 0 && !all.type.n)
        return err_set(e, -EINVAL, "matchers must contain a \"__profile_type__\" matcher");
    if (r < 0)
        return r;
    selector_print(&text, &all);
    *ret = arena_str(a, buf_str(&text));
    return buf_error(&text) || !ret->p ? -ENOMEM : 0;
}

static int check_upsert(const struct py_request *r, struct err *e)
{
    if (!is_id(r->name))
        return err_set(e, -EINVAL, "invalid request: id \"%.*s\" must match ^[a-zA-Z]+$", STR_FMT(r->name));
    if (!is_metric_name(str_trim(r->value)))
        return err_set(e, -EINVAL, "invalid request: metric_name \"%.*s\" is missing or invalid", STR_FMT(r->value));
    if (r->generation < 0)
        return err_set(e, -EINVAL, "invalid request: generation must be positive");
    if (r->label_names.n)
        return err_set(e, -ENOSYS, "external_labels of recording rules are not supported by wick");
    for (uint32_t i = 0; i < r->group_by.n; i++)
        if (!label_name_eq(r->group_by.v[i], STR("service_name")))
            return err_set(e, -ENOSYS,
                           "group_by '%.*s' of a recording rule is not supported by wick, only service_name",
                           STR_FMT(r->group_by.v[i]));
    return 0;
}

int py_rules_upsert(struct call *c, struct py_request *r, struct pbjson *w, struct err *e)
{
    struct arena *a = &c->q->arena;
    struct recording_rule rule = {.tenant = str_from(c->who.tenant),
                                  .id = r->name,
                                  .metric = str_trim(r->value),
                                  .function = r->query,
                                  .by_service = r->group_by.n,
                                  .generation = r->generation};
    int result = check_upsert(r, e);

    if (result == 0)
        result = make_selector(a, &r->matchers, &rule.selector, e);
    if (result < 0)
        return result;
    rule.matchers = (struct record_list){r->matchers.v, r->matchers.n};
    if (!rule.id.n) {
        int64_t now[2] = {clock_wall(), clock_mono()};

        rule.id = make_id(a, hash128(now, sizeof now));
    }
    result = rule.id.p ? kept_recordings_put(rules_of(c), &rule, e) : -ENOMEM;
    if (result < 0)
        return result;
    pbjson_begin(w, 1, "rule");
    put_rule(w, a, &rule, false);
    pbjson_end(w);
    return 0;
}

int py_rules_delete(struct call *c, struct py_request *r, struct pbjson *w, struct err *e)
{
    struct str id = str_trim(r->name);

    (void) w;
    if (!id.n)
        return err_set(e, -EINVAL, "invalid request: id is required");
    return kept_recordings_remove(rules_of(c), str_from(c->who.tenant), id, e);
}
