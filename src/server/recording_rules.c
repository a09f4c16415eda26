/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps recording rules, see recording_rules.h. A tenant's file:
 *
 *     {"tenant":"one","rules":[{"id":"abc","metric":"m","function":"main","matchers":["{…}"],"selector":"cpu{…}","generation":"1"}]}
 */
#include "server/recording_rules.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>

#include "alert/alert_config.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "server/tenant_files.h"

#define RULES_FILE STR("recording-rules.json")
#define RULES_WINDOW (60 * NS_PER_S)
enum { LIST_BYTES = 64 << 20, FILE_BYTES = 8 << 20 }; /* a file has all texts of a rule twice, and escaped */

struct recording_rules {
    pthread_mutex_t lock;
    struct tenant_files *files;
    recording_apply_fn apply;
    void *ctx;
    const void *base _guarded_by_(lock);
    struct recording_list all _guarded_by_(lock);
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
    to->matchers.v = arena_dup(a, from->matchers.v, from->matchers.n * sizeof(struct str));
    for (uint32_t i = 0; to->matchers.v && i < from->matchers.n; i++)
        ((struct str *) to->matchers.v)[i] = arena_str(a, ((const struct str *) from->matchers.v)[i]);
    return a->failed ? -ENOMEM : 0;
}

/* A copy with room for one more; tenant NULL: of all tenants. */
static int copy_list(const struct recording_list *from, const struct str *tenant, struct recording_list *ret)
{
    int r = 0;

    *ret = (struct recording_list){0};
    arena_init(&ret->arena, LIST_BYTES);
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

struct rules_file {
    struct str tenant;
    struct record_list rules;
};

static const struct record_field rule_fields[] = {
    {"id", RECORD_STR, offsetof(struct recording_rule, id)},
    {"metric", RECORD_STR, offsetof(struct recording_rule, metric)},
    {"function", RECORD_STR, offsetof(struct recording_rule, function)},
    {"selector", RECORD_STR, offsetof(struct recording_rule, selector)},
    {"generation", RECORD_NS, offsetof(struct recording_rule, generation)},
    {"by_service", RECORD_BOOL, offsetof(struct recording_rule, by_service)},
    {"matchers", RECORD_STRS, offsetof(struct recording_rule, matchers), RECORDING_MATCHERS_MAX},
    {0},
};

static const struct record_field file_fields[] = {
    {"tenant", RECORD_STR, offsetof(struct rules_file, tenant)},
    {"rules", RECORD_LIST, offsetof(struct rules_file, rules), RECORDING_RULES_MAX, .fields = rule_fields,
     .size = sizeof(struct recording_rule)},
    {0},
};

/* Reads a tenant's file into an empty list. */
static int parse_file(struct str text, struct recording_list *l, struct str *ret_tenant, struct err *e)
{
    struct rules_file f = {0};
    int r = record_read(text, file_fields, RECORD_FILE, &l->arena, &f, e);

    if (r < 0)
        return r;
    l->v = f.rules.v;
    l->n = f.rules.n;
    *ret_tenant = f.tenant;
    return f.tenant.p ? 0 : err_set(e, -EINVAL, "it names no tenant");
}

/* Adds a tenant's file to the list of all. */
static const char *add_file(void *arg, int read, struct str text, struct err *e)
{
    struct recording_list *all = arg, own = {0};
    struct str tenant = {0};
    const char *name = NULL;
    int r = read;

    arena_init(&own.arena, 4 * FILE_BYTES);
    if (r == 0)
        r = text.n > FILE_BYTES ? err_set(e, -EFBIG, "it has more than %d MiB", FILE_BYTES >> 20)
                                : parse_file(text, &own, &tenant, e);
    if (r == 0 && all->n + own.n > RECORDING_RULES_ALL)
        r = err_set(e, -E2BIG, "there are more than %d rules of all tenants", RECORDING_RULES_ALL);
    if (r == 0)
        name = arena_cstr(&all->arena, tenant);
    for (uint32_t i = 0; name && i < own.n; i++) {
        own.v[i].tenant = str_from(name);
        if (copy_rule(&all->arena, &own.v[i], &all->v[all->n++]) < 0)
            r = -ENOMEM;
    }
    recording_list_done(&own);
    return r == 0 ? name : NULL;
}

/* A file that cannot be read is set aside, and its tenant has no rules. */
static int read_files(struct recording_rules *r, struct err *e)
{
    struct recording_list *l = &r->all;

    arena_init(&l->arena, LIST_BYTES);
    l->v = arena_zalloc_array(&l->arena, RECORDING_RULES_ALL, sizeof *l->v);
    return l->v ? tenant_files_load(r->files, RULES_FILE, add_file, l, e) : -ENOMEM;
}

/* Writes the rules of one tenant. */
static int write_file(struct recording_rules *r, const struct recording_list *l, struct str tenant, struct err *e)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    _cleanup_(mem_freep) char *name = mem_dup(tenant.p ? tenant.p : "", (size_t) tenant.n + 1);
    _cleanup_(mem_freep) struct recording_rule *own = mem_zalloc_array((size_t) l->n + 1, sizeof *own);
    struct rules_file f = {tenant, {own, 0}};

    if (!name || !own)
        return -ENOMEM;
    name[tenant.n] = 0;
    for (uint32_t i = 0; i < l->n; i++)
        if (str_eq(l->v[i].tenant, tenant))
            own[f.rules.n++] = l->v[i];
    record_put(&out, file_fields, &f);
    return buf_error(&out) ? buf_error(&out) : tenant_files_put(r->files, name, RULES_FILE, buf_str(&out), e);
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

    arena_init(&a, LIST_BYTES);
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

/* Sets the file of a tenant aside: one of its rules cannot be compiled. */
static void drop_tenant(struct recording_rules *r, struct str tenant, const char *why)
{
    struct recording_list *l = &r->all;
    const char *name = arena_cstr(&l->arena, tenant);
    uint32_t n = 0;

    if (name)
        tenant_files_set_aside(r->files, name, RULES_FILE, why);
    for (uint32_t i = 0; i < l->n; i++)
        if (!str_eq(l->v[i].tenant, tenant))
            l->v[n++] = l->v[i];
    l->n = n;
}

int recording_rules_start(struct recording_rules *r, const void *base, struct err *e)
{
    int rc = recording_rules_apply(r, base, e);

    if (rc == 0)
        return 0;
    pthread_mutex_lock(&r->lock);
    for (uint32_t i = 0; i < r->all.n;) {
        struct recording_list own;
        struct str tenant = r->all.v[i].tenant;
        struct err why = {0};

        rc = copy_list(&r->all, &tenant, &own);
        if (rc == 0)
            rc = put_in_force(r, base, &own, &why);
        recording_list_done(&own);
        if (rc < 0)
            drop_tenant(r, tenant, err_message(&why, rc));
        while (rc == 0 && i < r->all.n && str_eq(r->all.v[i].tenant, tenant))
            i++;
    }
    pthread_mutex_unlock(&r->lock);
    return recording_rules_apply(r, base, e);
}

/* Activates the list, in which a tenant's rules have changed, writes these and keeps it; takes ownership of it in any case. */
static int change(struct recording_rules *r, struct recording_list *l, struct str tenant, struct err *e)
    _locked_(r->lock)
{
    int rc = put_in_force(r, r->base, l, e);

    if (rc == 0) {
        rc = write_file(r, l, tenant, e);
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
    rc = read_files(r, e);
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

static size_t rule_bytes(const struct recording_rule *x)
{
    size_t n = x->function.n;

    for (uint32_t i = 0; i < x->matchers.n; i++)
        n += ((const struct str *) x->matchers.v)[i].n;
    return n;
}

static int put_locked(struct recording_rules *r, struct recording_rule *rule, struct err *e) _locked_(r->lock)
{
    struct recording_list next;
    uint32_t n, at = find(&r->all, rule->tenant, rule->id, &n);
    int rc;

    if (at != UINT32_MAX && r->all.v[at].generation != rule->generation)
        return err_set(e, -EEXIST, "conflicting update, please try again");
    if (at == UINT32_MAX && n >= RECORDING_RULES_MAX)
        return err_set(e, -EDQUOT, "recording rules limit (%d) exceeded for this tenant", RECORDING_RULES_MAX);
    if (at == UINT32_MAX && r->all.n >= RECORDING_RULES_ALL)
        return err_set(e, -EDQUOT, "recording rules limit (%d) exceeded for all tenants", RECORDING_RULES_ALL);
    if (rule_bytes(rule) > RECORDING_RULE_BYTES)
        return err_set(e, -EINVAL,
                       "matchers and function name of a recording rule have at most %d bytes, these have %zu",
                       RECORDING_RULE_BYTES, rule_bytes(rule));
    rule->generation = at == UINT32_MAX ? 1 : rule->generation + 1;
    rc = copy_list(&r->all, NULL, &next);
    if (rc < 0)
        return rc;
    rc = copy_rule(&next.arena, rule, &next.v[at == UINT32_MAX ? next.n++ : at]);
    if (rc == 0)
        return change(r, &next, rule->tenant, e);
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

static int remove_locked(struct recording_rules *r, struct str tenant, struct str id, struct err *e) _locked_(r->lock)
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
    return change(r, &next, tenant, e);
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
