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
#include "base/map.h"
#include "base/mem.h"
#include "base/record.h"
#include "model/batch.h"
#include "model/semconv.h"
#include "model/sink.h"

#define RATE_SECONDS 120.0
enum { TEXT_MAX = 200, NAMES_MAX = 6 };

/* Exponentially weighted mean per second. */
struct rate {
    double sum;
    int64_t at, since; /* monotonic */
};

struct listed_sender {
    char *tenant, *names[NAMES_MAX]; /* service, version, host, pid, scope, agent: they identify it */
    uint64_t hash, profiles, samples, bytes, refused;
    struct rate profile_rate, sample_rate, byte_rate;
    int64_t first_ns, last_ns; /* wall */
    char peer[64], problem[256];
    bool has_own; /* one of wick's own senders; the next four are set */
    int64_t rate, lost, cpu_ns, governor;
    char governor_text[64]; /* state of an agent's governor; a library only counts its steps */
    char via[16], via_reason[256], lacks[512];
};

struct senders {
    pthread_mutex_t lock; /* protects everything below */
    struct listed_sender **v _guarded_by_(lock);
    size_t n _guarded_by_(lock), cap _guarded_by_(lock);
    struct map map _guarded_by_(lock); /* hash -> index; rebuilt when a sender is removed */
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

/* What identifies a sender. */
struct sender_names {
    const char *tenant;
    struct str v[NAMES_MAX];
    uint64_t hash;
};

static void names_of(const char *tenant, const struct resource *r, const struct scope *s, struct arena *a,
                     struct sender_names *ret)
{
    static const char *const keys[] = {
        SEMCONV_SERVICE_NAME, SEMCONV_SERVICE_VERSION, SEMCONV_HOST_NAME, SEMCONV_PROCESS_PID, NULL,
        "telemetry.sdk.name"};

    ret->tenant = tenant;
    ret->hash = hash64_str(str_from(tenant));
    for (size_t i = 0; i < NAMES_MAX; i++) {
        ret->v[i] = keys[i] ? text_of(&r->attrs, keys[i], a) : str_slice(s->name, 0, TEXT_MAX);
        ret->hash = hash_mix(ret->hash ^ hash64_str(ret->v[i]), i + 1);
    }
}

static bool is_sender(const struct listed_sender *x, const struct sender_names *names)
{
    if (x->hash != names->hash || strcmp(x->tenant, names->tenant) != 0)
        return false;
    for (size_t i = 0; i < NAMES_MAX; i++)
        if (!str_is(names->v[i], x->names[i]))
            return false;
    return true;
}

static struct listed_sender *sender_new(const struct sender_names *names)
{
    struct listed_sender *x = mem_zalloc(sizeof *x);
    bool ok = x && (x->tenant = mem_strdup(names->tenant));

    for (size_t i = 0; ok && i < NAMES_MAX; i++) {
        x->names[i] = mem_zalloc(names->v[i].n + 1u);
        ok = x->names[i];
        if (ok && names->v[i].n)
            memcpy(x->names[i], names->v[i].p, names->v[i].n);
    }
    if (!ok) {
        sender_free(x);
        return NULL;
    }
    x->hash = names->hash;
    return x;
}

static int latest_first(const void *a, const void *b)
{
    const struct listed_sender *x = *(struct listed_sender *const *) a, *y = *(struct listed_sender *const *) b;

    return (x->last_ns < y->last_ns) - (x->last_ns > y->last_ns);
}

/* Removes the senders that have been silent for the longest, an eighth of all: one at a time, each new sender of a large fleet would cost as much
 * as the whole table. */
static void make_room(struct senders *s) _locked_(s->lock)
{
    size_t keep = s->n - s->n / 8 - 1;

    qsort(s->v, s->n, sizeof(struct listed_sender *), latest_first);
    while (s->n > keep)
        sender_free(s->v[--s->n]);
    map_reset(&s->map);
    for (size_t i = 0; i < s->n; i++)
        map_insert(&s->map, s->v[i]->hash, (uint32_t) i); /* cannot fail: it held more before */
}

/* Under the lock. */
static struct listed_sender *find_sender(struct senders *s, const struct sender_names *names) _locked_(s->lock)
{
    struct listed_sender *x;

    for (struct map_pos p = map_find(&s->map, names->hash); p.index != MAP_NONE; p = map_next(&s->map, p))
        if (is_sender(s->v[p.index], names))
            return s->v[p.index];
    if (s->n == SENDERS_MAX)
        make_room(s);
    x = array_reserve(s->v, s->cap, s->n + 1, SENDERS_MAX) == 0 ? sender_new(names) : NULL;
    if (!x || map_insert(&s->map, names->hash, (uint32_t) s->n) < 0) {
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

/* How an agent samples, and what it lacks. */
static void read_way(const struct batch *b, const struct scope *sc, const struct profile *p, struct listed_sender *x)
{
    const struct {
        const char *key;
        char *to;
        size_t size;
    } texts[] = {{SEMCONV_WICK_VIA, x->via, sizeof x->via},
                 {SEMCONV_WICK_VIA_REASON, x->via_reason, sizeof x->via_reason},
                 {SEMCONV_WICK_LACKS, x->lacks, sizeof x->lacks}};

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        const struct value *v = own_value(b, sc, p, texts[i].key);

        snprintf(texts[i].to, texts[i].size, "%.*s", STR_FMT(v ? value_str(v) : (struct str){0}));
    }
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
    struct sender_names names;
    struct listed_sender *x;
    uint64_t samples = 0;
    int64_t now = clock_mono();
    double bytes = b->n_profiles ? (double) b->input_size * sc->profiles.n / b->n_profiles : 0;

    names_of(ctx->tenant, r, sc, a, &names);
    for (uint32_t i = 0; i < sc->profiles.n; i++)
        samples += b->profiles[sc->profiles.off + i].samples.n;
    pthread_mutex_lock(&s->lock);
    x = find_sender(s, &names);
    for (uint32_t i = 0; x && i < sc->profiles.n; i++) {
        read_own(b, sc, &b->profiles[sc->profiles.off + i], x);
        read_way(b, sc, &b->profiles[sc->profiles.off + i], x);
    }
    if (x) {
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
    pthread_mutex_unlock(&s->lock);
}

void senders_count(struct senders *s, const struct batch *b, const struct sink_context *ctx)
{
    struct arena a;

    arena_init(&a, 0);
    for (uint32_t i = 0; i < b->n_resources; i++)
        for (uint32_t k = 0; k < b->resources[i].scopes.n; k++)
            count_scope(s, b, &b->resources[i], &b->scopes[b->resources[i].scopes.off + k], ctx, &a);
    arena_done(&a);
}

static void note_scope(struct senders *s, struct arena *a, const struct resource *r, const struct scope *sc,
                       const char *tenant, const struct ack_result *result)
{
    struct sender_names names;
    struct listed_sender *x;

    names_of(tenant, r, sc, a, &names);
    pthread_mutex_lock(&s->lock);
    x = find_sender(s, &names);
    if (x) {
        x->refused += result->status != SINK_OK ? sc->profiles.n : MIN(result->rejected, (uint64_t) sc->profiles.n);
        snprintf(x->problem, sizeof x->problem, "%s", result->message);
    }
    pthread_mutex_unlock(&s->lock);
}

void senders_refused(struct senders *s, const struct batch *b, const char *tenant, const struct ack_result *result)
{
    struct arena a;

    arena_init(&a, 0);
    for (uint32_t i = 0; i < b->n_resources; i++)
        for (uint32_t k = 0; k < b->resources[i].scopes.n; k++)
            note_scope(s, &a, &b->resources[i], &b->scopes[b->resources[i].scopes.off + k], tenant, result);
    arena_done(&a);
}

int senders_new(struct senders **ret)
{
    struct senders *s = mem_zalloc(sizeof *s);

    if (!s)
        return -ENOMEM;
    pthread_mutex_init(&s->lock, NULL);
    *ret = s;
    return 0;
}

_unshared_ void senders_free(struct senders *s)
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

/* A sender with what is computed when it is shown. */
struct shown_sender {
    struct listed_sender s;
    double profile_rate, sample_rate, byte_rate;
};

#define SENDER(member) offsetof(struct shown_sender, s.member)
static const struct record_field sender_fields[] = {
    {"service", RECORD_TEXT, SENDER(names[0])},
    {"version", RECORD_TEXT, SENDER(names[1])},
    {"host", RECORD_TEXT, SENDER(names[2])},
    {"pid", RECORD_TEXT, SENDER(names[3])},
    {"scope", RECORD_TEXT, SENDER(names[4])},
    {"agent", RECORD_TEXT, SENDER(names[5]), 0, "name of the sending SDK"},
    {"peer", RECORD_CHARS, SENDER(peer), 0, "address of the last connection"},
    {"firstSeen", RECORD_NS, SENDER(first_ns)},
    {"lastSeen", RECORD_NS, SENDER(last_ns)},
    {"profiles", RECORD_COUNT, SENDER(profiles)},
    {"samples", RECORD_COUNT, SENDER(samples)},
    {"bytes", RECORD_COUNT, SENDER(bytes)},
    {"refused", RECORD_COUNT, SENDER(refused), 0, "profiles that were not stored"},
    {"profilesPerSecond", RECORD_NUMBER, offsetof(struct shown_sender, profile_rate), 6},
    {"samplesPerSecond", RECORD_NUMBER, offsetof(struct shown_sender, sample_rate), 6},
    {"bytesPerSecond", RECORD_NUMBER, offsetof(struct shown_sender, byte_rate), 6},
    {"governorText", RECORD_CHARS, SENDER(governor_text), 0, "state of the agent's governor", RECORD_SPARSE},
    {"via", RECORD_CHARS, SENDER(via), 0, "how an agent samples", RECORD_SPARSE},
    {"viaReason", RECORD_CHARS, SENDER(via_reason), .flags = RECORD_SPARSE},
    {"lacks", RECORD_CHARS, SENDER(lacks), 0, "what an agent cannot sample", RECORD_SPARSE},
    {"problem", RECORD_CHARS, SENDER(problem), 0, "why the last profiles were refused", RECORD_SPARSE},
    {0},
};

/* Of wick's own senders. */
static const struct record_field own_fields[] = {
    {"rate", RECORD_INT, SENDER(rate), 0, "samples per second"},
    {"lost", RECORD_INT, SENDER(lost), 0, "samples that were lost"},
    {"cpuNs", RECORD_INT, SENDER(cpu_ns), 0, "CPU time of the sender itself"},
    {"governor", RECORD_INT, SENDER(governor), 0, "how often the rate was lowered"},
    {0},
};

static void put_sender(struct buf *out, const struct listed_sender *x, int64_t mono)
{
    struct shown_sender shown = {*x, rate_read(&x->profile_rate, mono), rate_read(&x->sample_rate, mono),
                                 rate_read(&x->byte_rate, mono)};
    bool first = true;

    buf_putc(out, '{');
    record_put_fields(out, &first, sender_fields, &shown);
    if (x->has_own)
        record_put_fields(out, &first, own_fields, &shown);
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
