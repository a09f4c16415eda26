/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps rules, see kept_rules.h. The files of a tenant, recording-rules.json and alert-rules.json:
 *
 *     {"tenant":"one","rules":[{"id":"abc","metric":"m","function":"main","matchers":["{…}"],"selector":"cpu{…}","generation":"1"}]}
 *     {"tenant":"one","rules":[{"id":"5f2c","name":"JSON","type":"threshold","function":"json.*","over":"20%"}]}
 */
#include "server/kept_rules.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "server/tenant_files.h"

#define RULES_WINDOW (60 * NS_PER_S)
enum { LIST_BYTES = 64 << 20, FILE_BYTES = 8 << 20 }; /* a file has all texts of a rule twice, and escaped */

/* What both kinds of rules begin with. */
struct rule_head {
    struct str tenant, id;
};
_Static_assert(offsetof(struct recording_rule, id) == offsetof(struct rule_head, id), "head of a recording rule");
_Static_assert(offsetof(struct alert_definition, id) == offsetof(struct rule_head, id), "head of a definition");

enum kept_kind { KEPT_RECORDINGS, KEPT_ALERTS, KEPT_KINDS };

struct kept_rules {
    pthread_mutex_t lock;
    struct tenant_files *files;
    kept_apply_fn apply;
    void *ctx;
    const void *base _guarded_by_(lock);
    struct kept_list all[KEPT_KINDS] _guarded_by_(lock);
};

/* --- the files --- */

struct rules_file {
    struct str tenant;
    struct record_list rules;
};

static const struct record_field recording_fields[] = {
    {"id", RECORD_STR, offsetof(struct recording_rule, id)},
    {"metric", RECORD_STR, offsetof(struct recording_rule, metric)},
    {"function", RECORD_STR, offsetof(struct recording_rule, function)},
    {"selector", RECORD_STR, offsetof(struct recording_rule, selector)},
    {"generation", RECORD_NS, offsetof(struct recording_rule, generation)},
    {"by_service", RECORD_BOOL, offsetof(struct recording_rule, by_service)},
    {"matchers", RECORD_STRS, offsetof(struct recording_rule, matchers), RECORDING_MATCHERS_MAX},
    {0},
};

#define RULES_FILE(rule_struct, table)                                             \
    {                                                                              \
        {"tenant", RECORD_STR, offsetof(struct rules_file, tenant)},               \
            {"rules",        RECORD_LIST,     offsetof(struct rules_file, rules),  \
             KEPT_RULES_MAX, .fields = table, .size = sizeof(struct rule_struct)}, \
        {                                                                          \
            0                                                                      \
        }                                                                          \
    }
static const struct record_field recording_file[] = RULES_FILE(recording_rule, recording_fields),
                                 alert_file[] = RULES_FILE(alert_definition, alert_definition_fields);

static const struct kind {
    const char *file, *what;
    const struct record_field *fields, *file_fields;
    size_t size;
    uint32_t max_all;
} kinds[KEPT_KINDS] = {
    [KEPT_RECORDINGS] = {"recording-rules.json", "recording rules", recording_fields, recording_file,
                         sizeof(struct recording_rule), KEPT_RULES_ALL},
    [KEPT_ALERTS] = {"alert-rules.json", "alert rules", alert_definition_fields, alert_file,
                     sizeof(struct alert_definition), KEPT_ALERTS_ALL},
};

static struct rule_head *rule_at(const struct kind *k, const struct kept_list *l, uint32_t i)
{
    return (struct rule_head *) ((char *) l->rules.v + i * k->size);
}

void kept_list_done(struct kept_list *l)
{
    arena_done(&l->arena);
    *l = (struct kept_list){0};
}

/* Text of the rule, as the file has it: two rules differ if their texts do, and a copy is read from it. */
static int copy_rule(const struct kind *k, struct arena *a, const struct rule_head *from, struct rule_head *to)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    struct str kept;

    record_put(&text, k->fields, from);
    kept = arena_str(a, buf_str(&text));
    if (buf_error(&text) || !kept.p || record_read(kept, k->fields, RECORD_FILE, a, to, NULL) < 0)
        return -ENOMEM;
    to->tenant = arena_str(a, from->tenant);
    return a->failed ? -ENOMEM : 0;
}

/* A copy with room for one more; tenant NULL: of all tenants. */
static int copy_list(const struct kind *k, const struct kept_list *from, const struct str *tenant,
                     struct kept_list *ret)
{
    int r = 0;

    *ret = (struct kept_list){0};
    arena_init(&ret->arena, LIST_BYTES);
    ret->rules.v = arena_zalloc_array(&ret->arena, (size_t) from->rules.n + 1, k->size);
    if (!ret->rules.v)
        r = -ENOMEM;
    for (uint32_t i = 0; r == 0 && i < from->rules.n; i++)
        if (!tenant || str_eq(*tenant, rule_at(k, from, i)->tenant))
            r = copy_rule(k, &ret->arena, rule_at(k, from, i), rule_at(k, ret, ret->rules.n++));
    if (r < 0)
        kept_list_done(ret);
    return r;
}

/* What is read for one kind. */
struct file_load {
    const struct kind *kind;
    struct kept_list *all;
};

/* Adds a tenant's file to the list of all. */
static const char *add_file(void *arg, int read, struct str text, struct err *e)
{
    struct file_load *l = arg;
    struct kept_list *all = l->all, own = {0};
    struct rules_file f = {0};
    const char *name = NULL;
    int r = read;

    arena_init(&own.arena, 4 * FILE_BYTES);
    if (r == 0)
        r = text.n > FILE_BYTES ? err_set(e, -EFBIG, "it has more than %d MiB", FILE_BYTES >> 20)
                                : record_read(text, l->kind->file_fields, RECORD_FILE, &own.arena, &f, e);
    if (r == 0 && !f.tenant.p)
        r = err_set(e, -EINVAL, "it names no tenant");
    if (r == 0 && all->rules.n + f.rules.n > l->kind->max_all)
        r = err_set(e, -E2BIG, "there are more than %u %s of all tenants", l->kind->max_all, l->kind->what);
    if (r == 0)
        name = arena_cstr(&all->arena, f.tenant);
    own.rules = f.rules;
    for (uint32_t i = 0; name && r == 0 && i < own.rules.n; i++) {
        rule_at(l->kind, &own, i)->tenant = str_from(name);
        r = copy_rule(l->kind, &all->arena, rule_at(l->kind, &own, i), rule_at(l->kind, all, all->rules.n++));
    }
    arena_done(&own.arena);
    return r == 0 ? name : NULL;
}

/* A file that cannot be read is set aside, and its tenant has no rules. */
static int read_files(struct kept_rules *r, struct err *e)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < KEPT_KINDS; i++) {
        const struct kind *k = &kinds[i];
        struct file_load l = {k, &r->all[i]};

        arena_init(&l.all->arena, LIST_BYTES);
        l.all->rules.v = arena_zalloc_array(&l.all->arena, k->max_all, k->size);
        rc = l.all->rules.v ? tenant_files_load(r->files, str_from(k->file), add_file, &l, e) : -ENOMEM;
    }
    return rc;
}

/* Writes the rules of one tenant. */
static int write_file(struct kept_rules *r, const struct kind *k, const struct kept_list *l, struct str tenant,
                      struct err *e)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    _cleanup_(mem_freep) char *name = mem_dup(tenant.p ? tenant.p : "", (size_t) tenant.n + 1);
    struct rules_file f = {.tenant = tenant};
    struct kept_list own;
    int rc;

    if (!name)
        return -ENOMEM;
    name[tenant.n] = 0;
    rc = copy_list(k, l, &tenant, &own);
    if (rc < 0)
        return rc;
    f.rules = own.rules;
    record_put(&out, k->file_fields, &f);
    kept_list_done(&own);
    return buf_error(&out) ? buf_error(&out) : tenant_files_put(r->files, name, str_from(k->file), buf_str(&out), e);
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

static int make_recordings(struct arena *a, const struct kept_list *l, struct option_tables *ret)
{
    struct alert_recording_config *v = arena_zalloc_array(a, (size_t) l->rules.n + 1, sizeof *v);
    const struct recording_rule *rules = l->rules.v;

    for (uint32_t i = 0; v && i < l->rules.n; i++)
        v[i] =
            (struct alert_recording_config){.name = arena_cstr(a, rules[i].metric),
                                            .tenant = arena_cstr(a, rules[i].tenant),
                                            .selector = arena_cstr(a, rules[i].selector),
                                            .function = rules[i].function.n ? quote_name(a, rules[i].function) : NULL,
                                            .of = ALERT_OF_TOTAL,
                                            .each = rules[i].by_service,
                                            .window = RULES_WINDOW,
                                            .limit = 20};
    *ret = (struct option_tables){.v = v, .n = l->rules.n};
    return a->failed || !v ? -ENOMEM : 0;
}

static int make_alerts(struct conf *c, const struct kept_list *l, struct alert_added_list *ret)
{
    const struct alert_definition *rules = l->rules.v;
    int r = 0;

    *ret = (struct alert_added_list){arena_zalloc_array(&c->arena, (size_t) l->rules.n + 1, sizeof *ret->v), 0};
    if (!ret->v)
        r = -ENOMEM;
    for (; r == 0 && ret->n < l->rules.n; ret->n++)
        r = alert_definition_read(&rules[ret->n], c, &ret->v[ret->n]);
    return r;
}

/* Of an alert rule that is not active: its problem. In the log unless `id` is given, which must be active then. */
static int check_problems(const struct alert_added_list *l, const struct str *id, struct err *e)
{
    for (uint32_t i = 0; i < l->n; i++) {
        const struct alert_added *x = &l->v[i];

        if (x->invalid && id && str_is(*id, x->id))
            return err_set(e, x->problem.code, "%s", x->problem.message);
        if (x->invalid && !id)
            log_warn("alerts: the rule '%s' that was added is not active: %s", x->config.name ? x->config.name : x->id,
                     x->problem.message);
    }
    return 0;
}

/* Activates these lists; id: of an alert rule that must be valid; may be NULL. */
static int put_in_force(struct kept_rules *r, const void *base, const struct kept_list *const lists[KEPT_KINDS],
                        const struct str *id, struct err *e)
{
    struct option_tables recordings;
    struct alert_added_list alerts;
    struct conf c;
    int rc;

    conf_init(&c);
    rc = make_recordings(&c.arena, lists[KEPT_RECORDINGS], &recordings);
    if (rc == 0)
        rc = make_alerts(&c, lists[KEPT_ALERTS], &alerts);
    if (rc == 0)
        rc = r->apply(r->ctx, base, &recordings, &alerts, e);
    if (rc == 0)
        rc = check_problems(&alerts, id, e);
    conf_done(&c);
    return rc;
}

int kept_rules_apply(struct kept_rules *r, const void *base, struct err *e)
{
    int rc;

    pthread_mutex_lock(&r->lock);
    rc = put_in_force(r, base, (const struct kept_list *const[]){&r->all[0], &r->all[1]}, NULL, e);
    if (rc == 0)
        r->base = base;
    pthread_mutex_unlock(&r->lock);
    return rc;
}

/* Sets the file of a tenant aside: one of its recording rules cannot be compiled. */
static void drop_tenant(struct kept_rules *r, struct str tenant, const char *why) _locked_(r->lock)
{
    const struct kind *k = &kinds[KEPT_RECORDINGS];
    struct kept_list *l = &r->all[KEPT_RECORDINGS];
    struct recording_rule *v = l->rules.v;
    const char *name = arena_cstr(&l->arena, tenant);
    uint32_t n = 0;

    if (name)
        tenant_files_set_aside(r->files, name, str_from(k->file), why);
    for (uint32_t i = 0; i < l->rules.n; i++)
        if (!str_eq(v[i].tenant, tenant))
            v[n++] = v[i];
    l->rules.n = n;
}

int kept_rules_start(struct kept_rules *r, const void *base, struct err *e)
{
    struct kept_list *all = &r->all[KEPT_RECORDINGS];
    const struct kept_list none = {0};
    int rc = kept_rules_apply(r, base, e);

    if (rc == 0)
        return 0;
    pthread_mutex_lock(&r->lock);
    for (uint32_t i = 0; i < all->rules.n;) {
        struct str tenant = rule_at(&kinds[KEPT_RECORDINGS], all, i)->tenant;
        struct kept_list own;
        struct err why = {0};

        rc = copy_list(&kinds[KEPT_RECORDINGS], all, &tenant, &own);
        if (rc == 0)
            rc = put_in_force(r, base, (const struct kept_list *const[]){&own, &none}, NULL, &why);
        kept_list_done(&own);
        if (rc < 0)
            drop_tenant(r, tenant, err_message(&why, rc));
        while (rc == 0 && i < all->rules.n && str_eq(rule_at(&kinds[KEPT_RECORDINGS], all, i)->tenant, tenant))
            i++;
    }
    pthread_mutex_unlock(&r->lock);
    return kept_rules_apply(r, base, e);
}

/* Activates the list, in which a tenant's rules have changed, writes these and keeps it; takes ownership of it in any case.
 * id: of an alert rule that must be valid. */
static int change(struct kept_rules *r, enum kept_kind kind, struct kept_list *l, struct str tenant,
                  const struct str *id, struct err *e) _locked_(r->lock)
{
    const struct kept_list *lists[KEPT_KINDS] = {&r->all[0], &r->all[1]};
    int rc;

    lists[kind] = l;
    rc = put_in_force(r, r->base, lists, id, e);
    if (rc == 0)
        rc = write_file(r, &kinds[kind], l, tenant, e);
    if (rc == 0) {
        kept_list_done(&r->all[kind]);
        r->all[kind] = *l;
        return 0;
    }
    kept_list_done(l);
    lists[kind] = &r->all[kind];
    put_in_force(r, r->base, lists, NULL, NULL);
    return rc;
}

/* --- what the API does --- */

int kept_rules_new(struct tenant_files *files, kept_apply_fn apply, void *ctx, const void *base,
                   struct kept_rules **ret, struct err *e)
{
    struct kept_rules *r = mem_zalloc(sizeof *r);
    int rc;

    if (!r)
        return -ENOMEM;
    *r = (struct kept_rules){.files = files, .apply = apply, .ctx = ctx, .base = base};
    pthread_mutex_init(&r->lock, NULL);
    rc = read_files(r, e);
    if (rc < 0)
        kept_rules_free(r);
    else
        *ret = r;
    return rc;
}

void kept_rules_free(struct kept_rules *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < KEPT_KINDS; i++)
        kept_list_done(&r->all[i]);
    pthread_mutex_destroy(&r->lock);
    mem_free(r);
}

static int list_rules(struct kept_rules *r, enum kept_kind kind, struct str tenant, struct kept_list *ret)
{
    int rc;

    *ret = (struct kept_list){0};
    if (!r)
        return 0;
    pthread_mutex_lock(&r->lock);
    rc = copy_list(&kinds[kind], &r->all[kind], &tenant, ret);
    pthread_mutex_unlock(&r->lock);
    return rc;
}

int kept_recordings_list(struct kept_rules *r, struct str tenant, struct kept_list *ret)
{
    return list_rules(r, KEPT_RECORDINGS, tenant, ret);
}

int kept_alerts_list(struct kept_rules *r, struct str tenant, struct kept_list *ret)
{
    return list_rules(r, KEPT_ALERTS, tenant, ret);
}

static uint32_t find(const struct kind *k, const struct kept_list *l, struct str tenant, struct str id,
                     uint32_t *ret_of_tenant)
{
    uint32_t found = UINT32_MAX;

    *ret_of_tenant = 0;
    for (uint32_t i = 0; i < l->rules.n; i++) {
        const struct rule_head *x = rule_at(k, l, i);

        if (!str_eq(x->tenant, tenant))
            continue;
        ++*ret_of_tenant;
        if (str_eq(x->id, id))
            found = i;
    }
    return found;
}

/* Puts the rule in the place `at`, or at the end. */
static int put_at(struct kept_rules *r, enum kept_kind kind, const struct rule_head *rule, uint32_t at, uint32_t n,
                  struct err *e) _locked_(r->lock)
{
    const struct kind *k = &kinds[kind];
    struct kept_list next;
    int rc;

    if (at == UINT32_MAX && n >= KEPT_RULES_MAX)
        return err_set(e, -EDQUOT, "%s limit (%d) exceeded for this tenant", k->what, KEPT_RULES_MAX);
    if (at == UINT32_MAX && r->all[kind].rules.n >= k->max_all)
        return err_set(e, -EDQUOT, "%s limit (%u) exceeded for all tenants", k->what, k->max_all);
    rc = copy_list(k, &r->all[kind], NULL, &next);
    if (rc < 0)
        return rc;
    if (at == UINT32_MAX)
        at = next.rules.n++;
    memset(rule_at(k, &next, at), 0, k->size);
    rc = copy_rule(k, &next.arena, rule, rule_at(k, &next, at));
    if (rc == 0)
        return change(r, kind, &next, rule->tenant, kind == KEPT_ALERTS ? &rule->id : NULL, e);
    kept_list_done(&next);
    return rc;
}

static size_t recording_bytes(const struct recording_rule *x)
{
    size_t n = x->function.n;

    for (uint32_t i = 0; i < x->matchers.n; i++)
        n += ((const struct str *) x->matchers.v)[i].n;
    return n;
}

static int put_recording(struct kept_rules *r, struct recording_rule *rule, struct err *e) _locked_(r->lock)
{
    const struct recording_rule *v = r->all[KEPT_RECORDINGS].rules.v;
    uint32_t n, at = find(&kinds[KEPT_RECORDINGS], &r->all[KEPT_RECORDINGS], rule->tenant, rule->id, &n);

    if (at != UINT32_MAX && v[at].generation != rule->generation)
        return err_set(e, -EEXIST, "conflicting update, please try again");
    if (recording_bytes(rule) > KEPT_RULE_BYTES)
        return err_set(e, -EINVAL,
                       "matchers and function name of a recording rule have at most %d bytes, these have %zu",
                       KEPT_RULE_BYTES, recording_bytes(rule));
    rule->generation = at == UINT32_MAX ? 1 : rule->generation + 1;
    return put_at(r, KEPT_RECORDINGS, (const struct rule_head *) rule, at, n, e);
}

int kept_recordings_put(struct kept_rules *r, struct recording_rule *rule, struct err *e)
{
    int rc;

    if (!r)
        return err_set(e, -ENOSYS, "this server keeps no recording rules");
    pthread_mutex_lock(&r->lock);
    rc = put_recording(r, rule, e);
    pthread_mutex_unlock(&r->lock);
    return rc;
}

/* As the file has it, with all its texts. */
static size_t definition_bytes(const struct alert_definition *d)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;

    record_put(&text, alert_definition_fields, d);
    return text.n;
}

static int put_alert(struct kept_rules *r, const struct alert_definition *rule, bool replace, struct err *e)
    _locked_(r->lock)
{
    uint32_t n, at = find(&kinds[KEPT_ALERTS], &r->all[KEPT_ALERTS], rule->tenant, rule->id, &n);

    if (replace && at == UINT32_MAX)
        return err_set(e, -ENOENT, "there is no such rule");
    if (definition_bytes(rule) > KEPT_RULE_BYTES)
        return err_set(e, -EINVAL, "an alert rule has at most %d bytes, this one has %zu", KEPT_RULE_BYTES,
                       definition_bytes(rule));
    return put_at(r, KEPT_ALERTS, (const struct rule_head *) rule, at, n, e);
}

int kept_alerts_put(struct kept_rules *r, const struct alert_definition *rule, bool replace, struct err *e)
{
    int rc;

    if (!r)
        return err_set(e, -ENOSYS, "this server keeps no alert rules");
    pthread_mutex_lock(&r->lock);
    rc = put_alert(r, rule, replace, e);
    pthread_mutex_unlock(&r->lock);
    return rc;
}

static int remove_locked(struct kept_rules *r, enum kept_kind kind, struct str tenant, struct str id, struct err *e)
    _locked_(r->lock)
{
    const struct kind *k = &kinds[kind];
    struct kept_list next;
    uint32_t n, at = find(k, &r->all[kind], tenant, id, &n);
    int rc;

    if (at == UINT32_MAX)
        return err_set(e, -ENOENT, "no rule with id='%.*s' found", STR_FMT(id));
    rc = copy_list(k, &r->all[kind], NULL, &next);
    if (rc < 0)
        return rc;
    next.rules.n--;
    memmove(rule_at(k, &next, at), rule_at(k, &next, at + 1), (next.rules.n - at) * k->size);
    return change(r, kind, &next, tenant, NULL, e);
}

static int remove_rule(struct kept_rules *r, enum kept_kind kind, struct str tenant, struct str id, struct err *e)
{
    int rc;

    if (!r)
        return err_set(e, -ENOENT, "no rule with id='%.*s' found", STR_FMT(id));
    pthread_mutex_lock(&r->lock);
    rc = remove_locked(r, kind, tenant, id, e);
    pthread_mutex_unlock(&r->lock);
    return rc;
}

int kept_recordings_remove(struct kept_rules *r, struct str tenant, struct str id, struct err *e)
{
    return remove_rule(r, KEPT_RECORDINGS, tenant, id, e);
}

int kept_alerts_remove(struct kept_rules *r, struct str tenant, struct str id, struct err *e)
{
    return remove_rule(r, KEPT_ALERTS, tenant, id, e);
}
