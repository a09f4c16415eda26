/* SPDX-License-Identifier: Apache-2.0 */
/* The table of senders: identifies them, counts what they send, and prints the list. See senders.h. */
#include "serve/senders.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "alert/alert_eval.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "model/batch.h"
#include "model/semconv.h"

#define RATE_SECONDS 120.0
enum { TEXT_MAX = 200, TENANT_MAX = 64, NAMES_MAX = 6 };

/* The attributes that identify a sender. */
static const char *const name_keys[NAMES_MAX] = {"service", "version", "host", "pid", "scope", "agent"};

/* Exponentially weighted mean per second. */
struct rate {
    double sum;
    int64_t at, since; /* monotonic */
};

struct listed_sender {
    char *tenant, *names[NAMES_MAX];
    uint64_t hash, profiles, samples, bytes, refused;
    struct rate profile_rate, sample_rate, byte_rate;
    int64_t first_ns, last_ns; /* wall */
    char peer[64], problem[256];
    bool has_own; /* one of wick's own senders; the next four are set */
    int64_t rate, lost, cpu_ns, governor;
    char governor_text[64]; /* state of an agent's governor; a library only counts its steps */
};

struct senders {
    struct sink sink;
    struct sink *next;
    pthread_mutex_t lock; /* protects everything below */
    struct listed_sender **v;
    size_t n, cap;
    struct map map; /* hash -> index; rebuilt when a sender is removed */
};

/* --- rates --- */

static void rate_add(struct rate *r, double n, int64_t now)
{
    if (!r->since)
        r->since = r->at = now;
    r->sum = r->sum * exp(-(double) (now - r->at) / 1e9 / RATE_SECONDS) + n;
    r->at = now;
}

static double rate_read(const struct rate *r, int64_t now)
{
    double age = (double) (now - r->since) / 1e9, idle = (double) (now - r->at) / 1e9;

    /* A new sender has not filled the window yet: scale by the time it has been known. */
    return r->since ? r->sum * exp(-idle / RATE_SECONDS) / (RATE_SECONDS * (1 - exp(-fmax(age, 1) / RATE_SECONDS))) : 0;
}

/* --- the table --- */

static void sender_free(struct listed_sender *x)
{
    if (!x)
        return;
    mem_free(x->tenant);
    for (size_t i = 0; i < NAMES_MAX; i++)
        mem_free(x->names[i]);
    mem_free(x);
}

static struct str text_of(const struct kvs *attrs, const char *key, struct arena *a)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    const struct value *v = kvs_get(attrs, str_from(key));

    if (!v)
        return (struct str){"", 0};
    value_print(&text, v);
    return arena_str(a, str_slice(buf_str(&text), 0, TEXT_MAX));
}

static void names_of(const struct resource *r, const struct scope *s, struct arena *a, struct str *names)
{
    static const char *const keys[] = {
        SEMCONV_SERVICE_NAME, SEMCONV_SERVICE_VERSION, SEMCONV_HOST_NAME, SEMCONV_PROCESS_PID, NULL,
        "telemetry.sdk.name"};

    for (size_t i = 0; i < NAMES_MAX; i++)
        names[i] = keys[i] ? text_of(&r->attrs, keys[i], a) : str_slice(s->name, 0, TEXT_MAX);
}

static uint64_t hash_names(const char *tenant, const struct str *names)
{
    uint64_t h = hash64_str(str_from(tenant));

    for (size_t i = 0; i < NAMES_MAX; i++)
        h = hash_mix(h ^ hash64_str(names[i]), i + 1);
    return h;
}

static bool is_sender(const struct listed_sender *x, uint64_t hash, const char *tenant, const struct str *names)
{
    if (x->hash != hash || strcmp(x->tenant, tenant) != 0)
        return false;
    for (size_t i = 0; i < NAMES_MAX; i++)
        if (!str_is(names[i], x->names[i]))
            return false;
    return true;
}

static struct listed_sender *sender_new(uint64_t hash, const char *tenant, const struct str *names)
{
    struct listed_sender *x = mem_zalloc(sizeof *x);
    bool ok = x && (x->tenant = mem_strdup(tenant));

    for (size_t i = 0; ok && i < NAMES_MAX; i++) {
        x->names[i] = mem_zalloc(names[i].n + 1u);
        ok = x->names[i];
        if (ok && names[i].n)
            memcpy(x->names[i], names[i].p, names[i].n);
    }
    if (!ok) {
        sender_free(x);
        return NULL;
    }
    x->hash = hash;
    return x;
}

static int latest_first(const void *a, const void *b)
{
    const struct listed_sender *x = *(struct listed_sender *const *) a, *y = *(struct listed_sender *const *) b;

    return (x->last_ns < y->last_ns) - (x->last_ns > y->last_ns);
}

/* Removes the senders that have been silent for the longest, an eighth of all: one at a time, each new sender of a large fleet would cost as much
 * as the whole table. */
static void make_room(struct senders *s)
{
    size_t keep = s->n - s->n / 8 - 1;

    qsort(s->v, s->n, sizeof(struct listed_sender *), latest_first);
    while (s->n > keep)
        sender_free(s->v[--s->n]);
    map_reset(&s->map);
    for (size_t i = 0; i < s->n; i++)
        map_insert(&s->map, s->v[i]->hash, (uint32_t) i); /* cannot fail: it held more before */
}

static struct listed_sender *find_sender(struct senders *s, const char *tenant, const struct str *names)
{
    uint64_t hash = hash_names(tenant, names);
    struct listed_sender *x;

    for (struct map_pos p = map_find(&s->map, hash); p.index != MAP_NONE; p = map_next(&s->map, p))
        if (is_sender(s->v[p.index], hash, tenant, names))
            return s->v[p.index];
    if (s->n == SENDERS_MAX)
        make_room(s);
    x = array_reserve(s->v, s->cap, s->n + 1, SENDERS_MAX) == 0 ? sender_new(hash, tenant, names) : NULL;
    if (!x || map_insert(&s->map, hash, (uint32_t) s->n) < 0) {
        sender_free(x);
        return NULL;
    }
    return s->v[s->n++] = x;
}

/* --- counting --- */

/* In the attributes of the scope, where wick's own senders put them, or of a profile. */
static const struct value *own_value(const struct batch *b, const struct scope *sc, const struct profile *p,
                                     const char *key)
{
    const struct value *v = kvs_get(&sc->attrs, str_from(key));
    const struct attr *a = v ? NULL : batch_attr(b, p->attrs, str_from(key));

    return a ? &a->value : v;
}

static void read_own(const struct batch *b, const struct scope *sc, const struct profile *p, struct listed_sender *x)
{
    const struct {
        const char *key;
        int64_t *at;
    } own[] = {{SEMCONV_WICK_RATE, &x->rate},
               {SEMCONV_WICK_LOST, &x->lost},
               {SEMCONV_WICK_CPU_NS, &x->cpu_ns},
               {SEMCONV_WICK_GOVERNOR, &x->governor}};

    for (size_t i = 0; i < ARRAY_SIZE(own); i++) {
        const struct value *v = own_value(b, sc, p, own[i].key);

        if (v && v->kind == VALUE_INT) {
            *own[i].at = v->integer;
            x->has_own = true;
        } else if (v && v->kind == VALUE_STR && own[i].at == &x->governor)
            snprintf(x->governor_text, sizeof x->governor_text, "%.*s", STR_FMT(value_str(v)));
    }
}

static void count_scope(struct senders *s, const struct batch *b, const struct resource *r, const struct scope *sc,
                        const struct sink_context *ctx, struct arena *a)
{
    struct str names[NAMES_MAX];
    struct listed_sender *x;
    uint64_t samples = 0;
    int64_t now = clock_mono();
    double share = b->n_profiles ? (double) sc->profiles.n / b->n_profiles : 0;
    double bytes = (double) b->input_size * share;

    names_of(r, sc, a, names);
    x = find_sender(s, ctx->tenant, names);
    if (!x)
        return;
    for (uint32_t i = 0; i < sc->profiles.n; i++) {
        const struct profile *p = &b->profiles[sc->profiles.off + i];

        samples += p->samples.n;
        read_own(b, sc, p, x);
    }
    x->profiles += sc->profiles.n;
    x->samples += samples;
    x->bytes += (uint64_t) bytes;
    rate_add(&x->profile_rate, sc->profiles.n, now);
    rate_add(&x->sample_rate, (double) samples, now);
    rate_add(&x->byte_rate, bytes, now);
    x->last_ns = ctx->received_ns ? ctx->received_ns : clock_wall();
    if (!x->first_ns)
        x->first_ns = x->last_ns;
    if (ctx->peer)
        snprintf(x->peer, sizeof x->peer, "%s", ctx->peer);
}

static void count_batch(struct senders *s, const struct batch *b, const struct sink_context *ctx)
{
    struct arena a;

    arena_init(&a, 0);
    for (uint32_t i = 0; i < b->n_resources; i++) {
        const struct resource *r = &b->resources[i];

        for (uint32_t k = 0; k < r->scopes.n; k++) {
            const struct scope *sc = &b->scopes[r->scopes.off + k];

            count_scope(s, b, r, sc, ctx, &a);
        }
    }
    arena_done(&a);
}

/* --- outcome --- */

struct watched {
    struct ack ack;
    struct ack *home;
    struct senders *senders;
    struct batch *batch;
    char tenant[TENANT_MAX + 1];
};

static void note_scope(struct senders *s, struct arena *a, const struct resource *r, const struct scope *sc,
                       const char *tenant, const struct ack_result *result)
{
    struct str names[NAMES_MAX];
    struct listed_sender *x;

    names_of(r, sc, a, names);
    x = find_sender(s, tenant, names);
    if (!x)
        return;
    x->refused += result->status != SINK_OK ? sc->profiles.n : MIN(result->rejected, (uint64_t) sc->profiles.n);
    snprintf(x->problem, sizeof x->problem, "%s", result->message);
}

static void note_refusal(struct senders *s, const struct batch *b, const char *tenant, const struct ack_result *result)
{
    struct arena a;

    arena_init(&a, 0);
    for (uint32_t i = 0; i < b->n_resources; i++)
        for (uint32_t k = 0; k < b->resources[i].scopes.n; k++)
            note_scope(s, &a, &b->resources[i], &b->scopes[b->resources[i].scopes.off + k], tenant, result);
    arena_done(&a);
}

static void came_back(struct ack *a, const struct ack_result *r)
{
    struct watched *w = container_of(a, struct watched, ack);

    if (r->status != SINK_OK || r->rejected) {
        pthread_mutex_lock(&w->senders->lock);
        note_refusal(w->senders, w->batch, w->tenant, r);
        pthread_mutex_unlock(&w->senders->lock);
    }
    ack_complete(w->home, r);
    batch_unref(w->batch);
    mem_free(w);
}

static void consume(struct sink *sink, struct payload data, const struct sink_context *ctx, struct ack *ack)
{
    struct senders *s = container_of(sink, struct senders, sink);
    struct watched *w = mem_zalloc(sizeof *w);

    pthread_mutex_lock(&s->lock);
    count_batch(s, data.batch, ctx);
    pthread_mutex_unlock(&s->lock);
    if (!w) { /* if it cannot be watched, store it anyway */
        sink_consume(s->next, data.batch, ctx, ack);
        return;
    }
    *w = (struct watched){{came_back}, ack, s, batch_ref(data.batch), ""};
    snprintf(w->tenant, sizeof w->tenant, "%s", ctx->tenant);
    sink_consume(s->next, data.batch, ctx, &w->ack);
}

int senders_new(struct sink *next, struct senders **ret)
{
    struct senders *s = mem_zalloc(sizeof *s);

    if (!s)
        return -ENOMEM;
    s->sink.consume = consume;
    s->next = next;
    pthread_mutex_init(&s->lock, NULL);
    *ret = s;
    return 0;
}

void senders_free(struct senders *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->n; i++)
        sender_free(s->v[i]);
    mem_free(s->v);
    map_done(&s->map);
    pthread_mutex_destroy(&s->lock);
    mem_free(s);
}

struct sink *senders_sink(struct senders *s)
{
    return &s->sink;
}

void senders_losses(struct senders *s, const char *tenant, struct str service, struct alert_losses *ret)
{
    *ret = (struct alert_losses){0};
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < s->n; i++) {
        const struct listed_sender *x = s->v[i];

        if (!str_is(service, x->names[0]) || strcmp(x->tenant, tenant) != 0)
            continue;
        ret->received += x->profiles;
        ret->refused += x->refused;
    }
    pthread_mutex_unlock(&s->lock);
}

/* --- output --- */

static void put_number(struct buf *out, const char *key, double v)
{
    buf_printf(out, ",\"%s\":%.6g", key, v);
}

static void put_count(struct buf *out, const char *key, uint64_t v)
{
    buf_printf(out, ",\"%s\":", key);
    json_put_u64(out, v);
}

static void put_sender(struct buf *out, const struct listed_sender *x, int64_t mono)
{
    buf_putc(out, '{');
    for (size_t i = 0; i < NAMES_MAX; i++) {
        buf_printf(out, "%s\"%s\":", i ? "," : "", name_keys[i]);
        json_put_str(out, str_from(x->names[i]));
    }
    buf_puts(out, ",\"peer\":");
    json_put_str(out, str_from(x->peer));
    buf_printf(out, ",\"firstSeen\":\"%lld\",\"lastSeen\":\"%lld\"", (long long) x->first_ns, (long long) x->last_ns);
    put_count(out, "profiles", x->profiles);
    put_count(out, "samples", x->samples);
    put_count(out, "bytes", x->bytes);
    put_count(out, "refused", x->refused);
    put_number(out, "profilesPerSecond", rate_read(&x->profile_rate, mono));
    put_number(out, "samplesPerSecond", rate_read(&x->sample_rate, mono));
    put_number(out, "bytesPerSecond", rate_read(&x->byte_rate, mono));
    if (x->has_own)
        buf_printf(out, ",\"rate\":%lld,\"lost\":%lld,\"cpuNs\":%lld,\"governor\":%lld", (long long) x->rate,
                   (long long) x->lost, (long long) x->cpu_ns, (long long) x->governor);
    if (x->governor_text[0]) {
        buf_puts(out, ",\"governorText\":");
        json_put_str(out, str_from(x->governor_text));
    }
    if (x->problem[0]) {
        buf_puts(out, ",\"problem\":");
        json_put_str(out, str_from(x->problem));
    }
    buf_putc(out, '}');
}

static int by_last_seen(const void *a, const void *b)
{
    const struct listed_sender *x = *(struct listed_sender *const *) a, *y = *(struct listed_sender *const *) b;

    return x->last_ns != y->last_ns ? (x->last_ns < y->last_ns ? 1 : -1) : strcmp(x->names[0], y->names[0]);
}

int senders_json(struct senders *s, const char *tenant, int64_t now, struct buf *out)
{
    struct listed_sender **sorted;
    int64_t mono = clock_mono();
    size_t n = 0;

    pthread_mutex_lock(&s->lock);
    sorted = mem_alloc(MAX(s->n, (size_t) 1) * sizeof *sorted);
    for (size_t i = 0; sorted && i < s->n; i++)
        if (strcmp(s->v[i]->tenant, tenant) == 0)
            sorted[n++] = s->v[i];
    if (sorted)
        qsort(sorted, n, sizeof *sorted, by_last_seen);
    buf_printf(out, "{\"now\":\"%lld\",\"senders\":[", (long long) now);
    for (size_t i = 0; i < n; i++) {
        if (i)
            buf_putc(out, ',');
        put_sender(out, sorted[i], mono);
    }
    buf_puts(out, "]}\n");
    pthread_mutex_unlock(&s->lock);
    mem_free(sorted);
    return sorted ? 0 : -ENOMEM;
}
