/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps recording rules, see recording_rules.h. The file:
 *
 *     {"rules":[{"tenant":"","id":"abc","metric":"m","function":"main","matchers":["{…}"],"selector":"cpu{…}","generation":"1"}]}
 */
#include "server/recording_rules.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>

#include "alert/alert_config.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "server/tenant_files.h"

#define RULES_TENANT "\n" /* no tenant has this name */
#define RULES_FILE STR("recording-rules.json")
#define RULES_WINDOW (60 * NS_PER_S)

struct recording_rules {
    pthread_mutex_t lock;
    struct tenant_files *files;
    recording_apply_fn apply;
    void *ctx;
    const void *base;
    struct recording_list all;
};

void recording_list_done(struct recording_list *l)
{
    arena_done(&l->arena);
    *l = (struct recording_list){0};
}

static int copy_rule(struct arena *a, const struct recording_rule *from, struct recording_rule *to)
{
    *to = *from;
    to->tenant = arena_str(a, from->tenant);
    to->id = arena_str(a, from->id);
    to->metric = arena_str(a, from->metric);
    to->function = arena_str(a, from->function);
    to->selector = arena_str(a, from->selector);
    for (uint32_t i = 0; i < from->n_matchers; i++)
        to->matchers[i] = arena_str(a, from->matchers[i]);
    return a->failed ? -ENOMEM : 0;
}

/* A copy with room for one more; tenant NULL: of all tenants. */
static int copy_list(const struct recording_list *from, const struct str *tenant, struct recording_list *ret)
{
    int r = 0;

    *ret = (struct recording_list){0};
    arena_init(&ret->arena, 64 << 20);
    ret->v = arena_zalloc_array(&ret->arena, from->n + 1, sizeof *ret->v);
    if (!ret->v)
        r = -ENOMEM;
    for (uint32_t i = 0; r == 0 && i < from->n; i++)
        if (!tenant || str_eq(*tenant, from->v[i].tenant))
            r = copy_rule(&ret->arena, &from->v[i], &ret->v[ret->n++]);
    if (r < 0)
        recording_list_done(ret);
    return r;
}

/* --- the file --- */

static void read_rule(struct json *j, struct recording_rule *x)
{
    struct str key;

    json_begin_object(j);
    while (json_next_key(j, &key)) {
        if (str_is(key, "tenant"))
            x->tenant = json_str(j);
        else if (str_is(key, "id"))
            x->id = json_str(j);
        else if (str_is(key, "metric"))
            x->metric = json_str(j);
        else if (str_is(key, "function"))
            x->function = json_str(j);
        else if (str_is(key, "selector"))
            x->selector = json_str(j);
        else if (str_is(key, "generation"))
            str_to_i64(json_str(j), 10, &x->generation);
        else if (str_is(key, "by_service"))
            x->by_service = json_bool(j);
        else if (str_is(key, "matchers")) {
            json_begin_array(j);
            while (x->n_matchers < RECORDING_MATCHERS_MAX && json_next_item(j))
                x->matchers[x->n_matchers++] = json_str(j);
        } else
            json_skip(j);
    }
}

static int read_file(struct recording_rules *r, struct err *e)
{
    struct recording_list *l = &r->all;
    struct buf text = BUF_INIT;
    struct str key, kept;
    struct json j;
    int rc = tenant_files_get(r->files, RULES_TENANT, RULES_FILE, &text, e);

    arena_init(&l->arena, 64 << 20);
    kept = rc == 0 ? arena_str(&l->arena, buf_str(&text)) : (struct str){0};
    buf_done(&text);
    l->v = arena_zalloc_array(&l->arena, RECORDING_RULES_ALL, sizeof *l->v);
    if (!l->v)
        return -ENOMEM;
    if (rc < 0)
        return rc == -ENOENT ? 0 : rc;
    json_init(&j, kept, &l->arena);
    json_begin_object(&j);
    while (json_next_key(&j, &key)) {
        json_begin_array(&j);
        while (l->n < RECORDING_RULES_ALL && json_next_item(&j))
            read_rule(&j, &l->v[l->n++]);
    }
    return json_end(&j) < 0 ? json_error(&j, e) : 0;
}

static int write_file(struct recording_rules *r, const struct recording_list *l, struct err *e)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT;

    buf_puts(&out, "{\"rules\":[");
    for (uint32_t i = 0; i < l->n; i++) {
        const struct recording_rule *x = &l->v[i];
        bool first = true;

        buf_puts(&out, i ? ",{" : "{");
        json_put_key_str(&out, &first, "tenant", x->tenant);
        json_put_key_str(&out, &first, "id", x->id);
        json_put_key_str(&out, &first, "metric", x->metric);
        json_put_key_str(&out, &first, "function", x->function);
        json_put_key_str(&out, &first, "selector", x->selector);
        buf_printf(&out, ",\"generation\":\"%lld\",\"by_service\":%s,\"matchers\":[", (long long) x->generation,
                   x->by_service ? "true" : "false");
        for (uint32_t k = 0; k < x->n_matchers; k++) {
            buf_puts(&out, k ? "," : "");
            json_put_str(&out, x->matchers[k]);
        }
        buf_puts(&out, "]}");
    }
    buf_puts(&out, "]}");
    return buf_error(&out) ? buf_error(&out) : tenant_files_put(r->files, RULES_TENANT, RULES_FILE, buf_str(&out), e);
}

/* --- activating --- */

/* A regular expression for exactly this name. */
static const char *quote_name(struct arena *a, struct str name)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;

    for (uint32_t i = 0; i < name.n; i++) {
        if (name.p[i] && strchr("\\.+*?()|[]{}^$", name.p[i]))
            buf_putc(&b, '\\');
        buf_putc(&b, name.p[i]);
    }
    return buf_error(&b) ? NULL : arena_cstr(a, buf_str(&b));
}

static int put_in_force(struct recording_rules *r, const void *base, const struct recording_list *l, struct err *e)
{
    struct alert_recording_config *v;
    struct arena a;
    int rc;

    arena_init(&a, 64 << 20);
    v = arena_zalloc_array(&a, l->n + 1, sizeof *v);
    for (uint32_t i = 0; v && i < l->n; i++)
        v[i] = (struct alert_recording_config){.name = arena_cstr(&a, l->v[i].metric),
                                               .tenant = arena_cstr(&a, l->v[i].tenant),
                                               .selector = arena_cstr(&a, l->v[i].selector),
                                               .function = l->v[i].function.n ? quote_name(&a, l->v[i].function) : NULL,
                                               .of = ALERT_OF_TOTAL,
                                               .each = l->v[i].by_service,
                                               .window = RULES_WINDOW,
                                               .limit = 20};
    rc = a.failed || !v ? -ENOMEM : r->apply(r->ctx, base, &(struct option_tables){.v = v, .n = l->n}, e);
    arena_done(&a);
    return rc;
}

int recording_rules_apply(struct recording_rules *r, const void *base, struct err *e)
{
    int rc;

    pthread_mutex_lock(&r->lock);
    rc = put_in_force(r, base, &r->all, e);
    if (rc == 0)
        r->base = base;
    pthread_mutex_unlock(&r->lock);
    return rc;
}

/* Activates the list, writes it and keeps it; takes ownership of it in any case. */
static int change(struct recording_rules *r, struct recording_list *l, struct err *e)
{
    int rc = put_in_force(r, r->base, l, e);

    if (rc == 0) {
        rc = write_file(r, l, e);
        if (rc < 0)
            put_in_force(r, r->base, &r->all, NULL);
    }
    if (rc == 0) {
        recording_list_done(&r->all);
        r->all = *l;
    } else {
        recording_list_done(l);
    }
    return rc;
}

/* --- what the API does --- */

int recording_rules_new(struct tenant_files *files, recording_apply_fn apply, void *ctx, const void *base,
                        struct recording_rules **ret, struct err *e)
{
    struct recording_rules *r = mem_zalloc(sizeof *r);
    int rc;

    if (!r)
        return -ENOMEM;
    *r = (struct recording_rules){.files = files, .apply = apply, .ctx = ctx, .base = base};
    pthread_mutex_init(&r->lock, NULL);
    rc = read_file(r, e);
    if (rc < 0)
        recording_rules_free(r);
    else
        *ret = r;
    return rc;
}

void recording_rules_free(struct recording_rules *r)
{
    if (!r)
        return;
    recording_list_done(&r->all);
    pthread_mutex_destroy(&r->lock);
    mem_free(r);
}

int recording_rules_list(struct recording_rules *r, struct str tenant, struct recording_list *ret)
{
    int rc;

    *ret = (struct recording_list){0};
    if (!r)
        return 0;
    pthread_mutex_lock(&r->lock);
    rc = copy_list(&r->all, &tenant, ret);
    pthread_mutex_unlock(&r->lock);
    return rc;
}

static uint32_t find(const struct recording_list *l, struct str tenant, struct str id, uint32_t *ret_of_tenant)
{
    uint32_t found = UINT32_MAX;

    *ret_of_tenant = 0;
    for (uint32_t i = 0; i < l->n; i++) {
        if (!str_eq(l->v[i].tenant, tenant))
            continue;
        ++*ret_of_tenant;
        if (str_eq(l->v[i].id, id))
            found = i;
    }
    return found;
}

static int put_locked(struct recording_rules *r, struct recording_rule *rule, struct err *e)
{
    struct recording_list next;
    uint32_t n, at = find(&r->all, rule->tenant, rule->id, &n);
    int rc;

    if (at != UINT32_MAX && r->all.v[at].generation != rule->generation)
        return err_set(e, -EEXIST, "conflicting update, please try again");
    if (at == UINT32_MAX && (n >= RECORDING_RULES_MAX || r->all.n >= RECORDING_RULES_ALL))
        return err_set(e, -EDQUOT, "recording rules limit (%d) exceeded for this tenant", RECORDING_RULES_MAX);
    rule->generation = at == UINT32_MAX ? 1 : rule->generation + 1;
    rc = copy_list(&r->all, NULL, &next);
    if (rc < 0)
        return rc;
    rc = copy_rule(&next.arena, rule, &next.v[at == UINT32_MAX ? next.n++ : at]);
    if (rc == 0)
        return change(r, &next, e);
    recording_list_done(&next);
    return rc;
}

int recording_rules_put(struct recording_rules *r, struct recording_rule *rule, struct err *e)
{
    int rc;

    if (!r)
        return err_set(e, -ENOSYS, "this server keeps no recording rules");
    pthread_mutex_lock(&r->lock);
    rc = put_locked(r, rule, e);
    pthread_mutex_unlock(&r->lock);
    return rc;
}

static int remove_locked(struct recording_rules *r, struct str tenant, struct str id, struct err *e)
{
    struct recording_list next;
    uint32_t n, at = find(&r->all, tenant, id, &n);
    int rc;

    if (at == UINT32_MAX)
        return err_set(e, -ENOENT, "no rule with id='%.*s' found", STR_FMT(id));
    rc = copy_list(&r->all, NULL, &next);
    if (rc < 0)
        return rc;
    for (uint32_t i = at; i + 1 < next.n; i++)
        next.v[i] = next.v[i + 1];
    next.n--;
    return change(r, &next, e);
}

int recording_rules_remove(struct recording_rules *r, struct str tenant, struct str id, struct err *e)
{
    int rc;

    if (!r)
        return err_set(e, -ENOENT, "no rule with id='%.*s' found", STR_FMT(id));
    pthread_mutex_lock(&r->lock);
    rc = remove_locked(r, tenant, id, e);
    pthread_mutex_unlock(&r->lock);
    return rc;
}
