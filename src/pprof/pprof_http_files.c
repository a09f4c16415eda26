/* SPDX-License-Identifier: Apache-2.0 */
/* The profile of `wick pprof -http` as filtered copies and as stores in memory (pprof_http_files.h). */
#include "pprof/pprof_http_files.h"

#include <errno.h>
#include <pthread.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/wrap.h"
#include "model/convert.h"
#include "model/semconv.h"
#include "model/types.h"
#include "net/http.h"
#include "report/gopath.h"
#include "report/report_driver.h"
#include "store/store.h"

/* Options that change the content of a profile, by their names in URLs; all others only change how it is shown. */
static const char *const filter_names[] = {"f", "i", "h", "s", "sf", "tf", "ti", "ts", "th", "prunefrom"};

struct files_store {
    char *key; /* the filters, as a query string */
    struct store *store;
    unsigned refs;
    uint64_t used; /* larger is more recent */
};

struct pprof_files {
    struct prof *prof;
    const struct pprof_args *args;
    pthread_mutex_t lock; /* guards the profile, its pool of strings, and the list of stores */
    struct files_store stores[PPROF_STORES_MAX];
    size_t n_stores;
    uint64_t uses;
    char *query, *base_query;
    int64_t time_ns, duration_ns;
};

const struct prof *pprof_files_prof(const struct pprof_files *f)
{
    return f->prof;
}

const struct pprof_args *pprof_files_args(const struct pprof_files *f)
{
    return f->args;
}

void pprof_files_lock(struct pprof_files *f)
{
    pthread_mutex_lock(&f->lock);
}

void pprof_files_unlock(struct pprof_files *f)
{
    pthread_mutex_unlock(&f->lock);
}

int pprof_files_config(const struct pprof_files *f, struct str query, struct arena *a, struct pprof_config *ret,
                       struct err *e)
{
    size_t n;
    const struct config_field *fields = config_fields(&n);

    *ret = f->args->config;
    for (size_t i = 0; i < n; i++) {
        const char *name = config_url_name(&fields[i]);
        struct str value = name ? http_query_get(query, a, name) : (struct str){0};
        int r = value.n ? config_set(ret, str_from(fields[i].name), value, a, e) : 0;

        if (r < 0)
            return err_prefix(e, r, "error setting config field %s: ", fields[i].name);
    }
    return 0;
}

/* --- a profile as a batch for a store --- */

/* Keeps only the samples of the base, as positive numbers, or only the others. -base leaves no label: there the
 * negative samples are those of the base. */
static void keep_side(struct prof *p, bool base, bool labelled)
{
    size_t kept = 0;

    for (size_t i = 0; i < p->n_samples; i++) {
        int64_t *v = p->values + p->samples[i].values, sum = 0;
        bool is_base;

        for (uint32_t k = 0; k < p->n_types; k++)
            wrap_inc(&sum, v[k]);
        is_base = labelled ? prof_sample_is_base(p, &p->samples[i]) : sum < 0;
        if (is_base != base)
            continue;
        for (uint32_t k = 0; base && k < p->n_types; k++)
            v[k] = (int64_t) (0 - (uint64_t) v[k]);
        p->samples[kept++] = p->samples[i];
    }
    p->n_samples = kept;
}

static struct kv text_attr(const char *key, const char *value)
{
    return (struct kv){str_from(key), {.kind = VALUE_STR, .n = (uint32_t) strlen(value), .str = value}};
}

static const char *title_of(const struct pprof_files *f, struct arena *a)
{
    const struct prof *p = f->prof;
    struct str file = p->n_mappings > 1 ? gopath_base(prof_str(p, p->mappings[1].file)) : (struct str){0};

    return file.n ? arena_cstr(a, file) : "profile";
}

/* p is modified. */
static int to_batch(const struct pprof_files *f, struct prof *p, const char *side, struct batch **ret, struct err *e)
{
    _cleanup_(batch_unrefp) struct batch *one = NULL, *split = NULL, *named = NULL;
    struct kv *attrs;
    int r;

    p->time_ns = f->time_ns;
    r = prof_to_batch(p, &one, e);
    if (r >= 0)
        r = convert_split_types(one, &split, e);
    if (r >= 0)
        r = batch_share(split, &named);
    if (r < 0)
        return r;
    attrs = arena_zalloc_array(&named->arena, 2, sizeof *attrs);
    if (!attrs)
        return -ENOMEM;
    attrs[0] = text_attr(SEMCONV_SERVICE_NAME, title_of(f, &named->arena));
    attrs[1] = text_attr("file", side);
    for (uint32_t i = 0; i < named->n_resources; i++)
        named->resources[i].attrs = (struct kvs){attrs, 2};
    *ret = TAKE(named);
    return 0;
}

static int append_side(const struct pprof_files *f, const struct prof *filtered, bool base, struct store *s,
                       struct err *e)
{
    _cleanup_(batch_unrefp) struct batch *b = NULL;
    _cleanup_(prof_freep) struct prof *p = NULL;
    struct ack_result result = {0};
    struct sink_context ctx = {.tenant = ""};
    int r = prof_copy(filtered, &p);

    if (r >= 0 && f->base_query)
        keep_side(p, base, f->args->diff_base);
    if (r >= 0 && !p->n_samples)
        return 0;
    if (r >= 0)
        r = to_batch(f, p, base ? "base" : "profile", &b, e);
    if (r >= 0)
        r = store_append_wait(s, b, &ctx, &result);
    if (r >= 0 && result.status != SINK_OK)
        return err_set(e, -EIO, "%s", result.message);
    return r;
}

static void ignore_message(void *arg, const char *text)
{
    (void) arg, (void) text;
}

static int filter(const struct pprof_files *f, const struct pprof_config *config, struct prof **ret, struct err *e)
{
    static const struct report_command all = {"proto", REPORT_PROTO, {0}};
    _cleanup_(prof_freep) struct prof *p = NULL;
    struct report_run run;
    int r = prof_copy(f->prof, &p);

    if (r < 0)
        return r;
    r = report_run_prepare(&run, p, &all, config, &(struct report_say){ignore_message, NULL}, e);
    report_run_done(&run);
    if (r >= 0)
        *ret = TAKE(p);
    return r;
}

static int make_store(const struct pprof_files *f, struct str query, struct store **ret, struct err *e)
{
    static const char *const labels[] = {SEMCONV_SERVICE_NAME, "file", NULL};
    const struct store_config sc = {
        .dir = "memory:", .allow = labels, .max_late = -1, .max_early = -1, .keep = -1, .keep_detail = -1};
    _cleanup_(store_closep) struct store *s = NULL;
    _cleanup_(prof_freep) struct prof *p = NULL;
    struct pprof_config config;
    struct arena a;
    int r;

    arena_init(&a, 1 << 20);
    r = pprof_files_config(f, query, &a, &config, e);
    if (r >= 0)
        r = filter(f, &config, &p, e);
    arena_done(&a);
    if (r >= 0)
        r = store_open_place(&sc, &s, e);
    if (r >= 0)
        r = append_side(f, p, false, s, e);
    if (r >= 0 && f->base_query)
        r = append_side(f, p, true, s, e);
    if (r >= 0)
        *ret = TAKE(s);
    return r;
}

/* --- recently used stores --- */

static void put_filters(struct str query, struct buf *out)
{
    struct arena a;

    arena_init(&a, 1 << 20);
    for (size_t i = 0; i < ARRAY_SIZE(filter_names); i++) {
        struct str value = http_query_get(query, &a, filter_names[i]);

        if (!value.n)
            continue;
        buf_printf(out, "%s%s=", out->n ? "&" : "", filter_names[i]);
        http_percent_encode(out, value);
    }
    arena_done(&a);
}

static struct files_store *find_store(struct pprof_files *f, struct str key)
{
    for (size_t i = 0; i < f->n_stores; i++)
        if (str_is(key, f->stores[i].key))
            return &f->stores[i];
    return NULL;
}

/* A slot for another store: a free one, or that of the least recently used one. NULL if all are in use. */
static struct files_store *free_place(struct pprof_files *f)
{
    struct files_store *oldest = NULL;

    if (f->n_stores < PPROF_STORES_MAX)
        return &f->stores[f->n_stores];
    for (size_t i = 0; i < f->n_stores; i++)
        if (!f->stores[i].refs && (!oldest || f->stores[i].used < oldest->used))
            oldest = &f->stores[i];
    return oldest;
}

static int add_store(struct pprof_files *f, const char *key, struct files_store **ret, struct err *e)
{
    struct files_store *place = free_place(f);
    struct store *s;
    char *own;
    int r;

    if (!place)
        return err_set(e, -EAGAIN, "too many filters are being evaluated at once; retry in a second");
    r = make_store(f, str_from(key), &s, e);
    if (r < 0)
        return r;
    own = mem_strdup(key);
    if (!own) {
        store_close(s);
        return -ENOMEM;
    }
    if (place == &f->stores[f->n_stores])
        f->n_stores++;
    store_close(place->store);
    mem_free(place->key);
    *place = (struct files_store){.key = own, .store = s};
    *ret = place;
    return 0;
}

int pprof_files_store(struct pprof_files *f, struct str query, struct store **ret, struct err *e)
{
    _cleanup_(buf_done) struct buf key = BUF_INIT;
    struct files_store *s;
    int r = 0;

    put_filters(query, &key);
    if (!buf_cstr(&key))
        return -ENOMEM;
    pthread_mutex_lock(&f->lock);
    s = find_store(f, buf_str(&key));
    if (!s)
        r = add_store(f, key.p, &s, e);
    if (r >= 0) {
        s->refs++;
        s->used = ++f->uses;
        *ret = s->store;
    }
    pthread_mutex_unlock(&f->lock);
    return r;
}

void pprof_files_store_done(struct pprof_files *f, struct store *store)
{
    pthread_mutex_lock(&f->lock);
    for (size_t i = 0; i < f->n_stores; i++)
        if (f->stores[i].store == store)
            f->stores[i].refs--;
    pthread_mutex_unlock(&f->lock);
}

/* --- creation and destruction --- */

/* The canonical name of the type that pprof would show first. */
static int first_query(struct pprof_files *f, struct err *e)
{
    const struct prof *p = f->prof;
    int index = p->n_types ? prof_type_index(p, f->args->config.sample_index, e) : 0;
    _cleanup_(buf_done) struct buf text = BUF_INIT, base = BUF_INIT;
    struct type t;
    int64_t scale;

    if (!p->n_types)
        return err_set(e, -EINVAL, "profile has no samples");
    if (index < 0)
        return index;
    type_lookup(&(struct type_spelling){.type = prof_str(p, p->types[index].type),
                                        .unit = prof_str(p, p->types[index].unit),
                                        .period_type = prof_str(p, p->period_type.type),
                                        .period_unit = prof_str(p, p->period_type.unit),
                                        .period = p->period},
                &t, &scale);
    buf_put_str(&text, t.name);
    if (f->args->n_bases) {
        buf_printf(&base, "%.*s{file=\"base\"}", STR_FMT(t.name));
        buf_puts(&text, "{file=\"profile\"}");
        f->base_query = mem_strdup(buf_cstr(&base) ? base.p : "");
    }
    f->query = mem_strdup(buf_cstr(&text) ? text.p : "");
    return f->query && (f->base_query || !f->args->n_bases) ? 0 : -ENOMEM;
}

int pprof_files_new(struct prof *prof, const struct pprof_args *a, struct pprof_files **ret, struct err *e)
{
    _cleanup_(pprof_files_freep) struct pprof_files *f = mem_zalloc(sizeof *f);
    int r;

    if (!f)
        return -ENOMEM;
    f->prof = prof;
    f->args = a;
    /* Times before 1974 are not valid, and could be mistaken for other units. */
    f->time_ns = prof->time_ns > 4 * 31536000ll * NS_PER_S ? prof->time_ns : clock_wall() - NS_PER_S;
    f->duration_ns = MAX(prof->duration_ns, NS_PER_S);
    pthread_mutex_init(&f->lock, NULL);
    r = first_query(f, e);
    if (r < 0)
        return r;
    *ret = TAKE(f);
    return 0;
}

void pprof_files_free(struct pprof_files *f)
{
    if (!f)
        return;
    for (size_t i = 0; i < f->n_stores; i++) {
        store_close(f->stores[i].store);
        mem_free(f->stores[i].key);
    }
    mem_free(f->query);
    mem_free(f->base_query);
    pthread_mutex_destroy(&f->lock);
    mem_free(f);
}

const char *pprof_files_query(const struct pprof_files *f)
{
    return f->query;
}

const char *pprof_files_base_query(const struct pprof_files *f)
{
    return f->base_query;
}

void pprof_files_range(const struct pprof_files *f, int64_t *ret_from, int64_t *ret_to)
{
    *ret_from = f->time_ns - NS_PER_S;
    *ret_to = f->time_ns + f->duration_ns;
}
