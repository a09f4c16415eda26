/* SPDX-License-Identifier: Apache-2.0 */
/* Looks up the names of native frames, remembers the result per build id, and runs the thread that fetches from
 * debuginfod. See name_source.h. Lock order: `asking` (only one thread at a time may use the symbolizer) before `lock`
 * (the table). */
#include "server/name_source.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/thread.h"

enum { ENTRIES_MAX = 65536, TRIED_MAX = 4 << 20, WANTED_MAX = 256 };
#define RETRY_DEFAULT (10 * 60 * NS_PER_S)
#define RETRY_SOON (10 * NS_PER_S) /* after a failure that may pass; doubled each time */
#define TURN_MAX (3 * NS_PER_S)    /* how long a query waits for the symbolizer, which others use */
#define SETTLED (10 * NS_PER_S)    /* a binary all of whose known addresses were looked up */

struct name_entry {
    struct name_status status;
    uint64_t key;
    int64_t next_try; /* monotonic; 0: nothing is known about it yet, or its file has changed */
    int64_t pause;    /* until the try after that, if it fails as well */
    int64_t away;     /* the same while debuginfod cannot be asked */
};

struct name_source {
    struct names names;
    struct name_source_options o;
    pthread_mutex_t asking;
    pthread_mutex_t lock; /* protects everything below */
    pthread_cond_t more;  /* wanted, stopping */
    struct name_entry *entries _guarded_by_(lock);
    size_t n _guarded_by_(lock), cap _guarded_by_(lock);
    struct map by_key _guarded_by_(lock); /* of entries */
    struct map tried _guarded_by_(lock);
    uint64_t *tried_keys _guarded_by_(lock); /* hashes of build id and address */
    size_t cap_tried _guarded_by_(lock);
    char (*wanted)[BINARY_ID_SIZE];
    unsigned n_wanted _guarded_by_(lock);
    bool stopping, has_thread;
    atomic_bool stop;
    struct debuginfod_rate rate _guarded_by_(lock);
    struct log_limit log_failed;
    pthread_t thread;
};

static struct name_source *to_source(struct names *n)
{
    return container_of(n, struct name_source, names);
}

const char *const name_state_words[] = {"found", "missing", "fetching", "failed", "later", NULL};

static uint64_t key_of(const char *tenant, struct str build_id)
{
    return hash_mix(hash64_str(str_from(tenant)), ~hash64_str(build_id));
}

static struct name_entry *find_entry(struct name_source *s, uint64_t key) _locked_(s->lock)
{
    for (struct map_pos p = map_find(&s->by_key, key); p.index != MAP_NONE; p = map_next(&s->by_key, p))
        if (s->entries[p.index].key == key)
            return &s->entries[p.index];
    return NULL;
}

static struct name_entry *get_entry(struct name_source *s, const char *tenant, struct str build_id) _locked_(s->lock)
{
    uint64_t key = key_of(tenant, build_id);
    struct name_entry *e = find_entry(s, key);

    if (e)
        return e;
    if (s->n == ENTRIES_MAX) { /* looking at all of them again is only slower */
        s->n = 0;
        map_reset(&s->by_key);
    }
    if (array_reserve(s->entries, s->cap, s->n + 1, ENTRIES_MAX) < 0 ||
        map_insert(&s->by_key, key, (uint32_t) s->n) < 0)
        return NULL;
    e = &s->entries[s->n++];
    *e = (struct name_entry){.key = key};
    snprintf(e->status.tenant, sizeof e->status.tenant, "%s", tenant);
    snprintf(e->status.build_id, sizeof e->status.build_id, "%.*s", STR_FMT(build_id));
    return e;
}

static enum names_hope hope_of(const struct name_entry *e, bool lines)
{
    if (!e)
        return NAMES_NOW;
    if (clock_mono() < e->next_try)
        return e->status.state == NAMES_FETCHING || e->status.state == NAMES_DELAYED ? NAMES_LATER : NAMES_NONE;
    if (lines && e->next_try && e->status.state == NAMES_FOUND && e->status.quality != SYMBOLS_LINES)
        return NAMES_NONE;
    return NAMES_NOW;
}

static enum names_hope source_hope(struct names *n, const char *tenant, struct str build_id, bool lines)
{
    struct name_source *s = to_source(n);
    enum names_hope h;

    if (!binary_id_ok(build_id))
        return NAMES_NONE;
    pthread_mutex_lock(&s->lock);
    h = hope_of(find_entry(s, key_of(tenant, build_id)), lines);
    pthread_mutex_unlock(&s->lock);
    return h;
}

/* --- addresses already looked up --- */

static bool was_tried(const struct name_source *s, uint64_t h) _locked_(s->lock)
{
    for (struct map_pos p = map_find(&s->tried, h); p.index != MAP_NONE; p = map_next(&s->tried, p))
        if (s->tried_keys[p.index] == h)
            return true;
    return false;
}

static void set_tried(struct name_source *s, uint64_t h) _locked_(s->lock)
{
    if (s->tried.n >= TRIED_MAX)
        map_reset(&s->tried); /* looking them up again is only slower */
    if (array_reserve(s->tried_keys, s->cap_tried, (size_t) s->tried.n + 1, TRIED_MAX) == 0) {
        s->tried_keys[s->tried.n] = h;
        map_insert(&s->tried, h, s->tried.n);
    }
}

static uint32_t not_tried(struct name_source *s, uint64_t key, const uint64_t *addresses, uint32_t n, uint64_t *out)
{
    uint32_t kept = 0;

    pthread_mutex_lock(&s->lock);
    for (uint32_t i = 0; i < n; i++)
        if (!was_tried(s, hash_mix(key, addresses[i] ^ 0x9e3779b97f4a7c15ull)))
            out[kept++] = addresses[i];
    pthread_mutex_unlock(&s->lock);
    return kept;
}

/* --- asking --- */

/* Finds the file for this build id: "" if it is one of the system's, which the symbolizer finds itself. */
static void find_file(struct name_source *s, const char *tenant, struct str build_id, char path[BINARY_PATH_SIZE])
{
    if (s->o.files && (binary_store_find(s->o.files, tenant, build_id, path, NULL) == 0 ||
                       binary_store_find(s->o.files, BINARY_SHARED, build_id, path, NULL) == 0))
        return;
    path[0] = 0;
}

/* Asks the symbolizer. path: "" for a file of this system, which is found by its build ID. */
static int ask(struct name_source *s, const char *path, const struct names_request *what, int64_t until,
               struct symbol_answer **ret, struct err *e)
{
    struct str build_id = what->build_id;
    struct symbol_request q = {.path = str_from(path),
                               .build_id = build_id,
                               .owner = str_from(what->tenant),
                               .addresses = what->addresses,
                               .n_addresses = what->n,
                               .lines = true};
    _cleanup_(fd_closep) int fd = -1;
    char system[BINARY_ID_SIZE + 64];
    int r;

    if (!path[0] && (build_id.n < 3 || str_find_char(build_id, '/') >= 0))
        return err_set(e, -ENOENT, "no file has been found");
    if (!path[0]) { /* the distribution's */
        snprintf(system, sizeof system, "/usr/lib/debug/.build-id/%.2s/%.*s.debug", build_id.p,
                 (int) MIN(build_id.n - 2, BINARY_ID_SIZE - 1u), build_id.p + 2);
        q.path = str_from(system);
    }
    fd = fd_open_regular(path[0] ? path : system);
    if (fd == -ENOENT && !path[0])
        return err_set(e, -ENOENT, "no file has been found");
    if (fd >= 0) /* by descriptor: where there is no Landlock, the symbolizer can open nothing */
        q.fd = &fd;
    if (thread_lock(&s->asking, until) != 0)
        return err_set(e, -EAGAIN, "the symbolizer is busy with other files");
    r = symbolizer_resolve(s->o.symbolizer, &q, ret, e);
    pthread_mutex_unlock(&s->asking);
    return r;
}

/* Queues the build id for the background thread. False if that is not possible. */
static bool want(struct name_source *s, struct str build_id) _locked_(s->lock)
{
    if (!s->has_thread || s->n_wanted == WANTED_MAX)
        return false;
    for (unsigned i = 0; i < s->n_wanted; i++)
        if (str_is(build_id, s->wanted[i]))
            return true;
    snprintf(s->wanted[s->n_wanted++], BINARY_ID_SIZE, "%.*s", STR_FMT(build_id));
    pthread_cond_signal(&s->more);
    return true;
}

static void note_failure(struct name_source *s, const char *tenant, struct str build_id, int r, const struct err *e)
{
    struct name_entry *x;
    uint64_t held;

    pthread_mutex_lock(&s->lock);
    x = get_entry(s, tenant, build_id);
    if (x) {
        x->status.state = r == -ENOENT ? NAMES_MISSING : NAMES_FAILED;
        snprintf(x->status.why, sizeof x->status.why, "%s",
                 r == -ENOENT ? "no file with this build id was uploaded or is installed" : err_message(e, r));
        if (r == -ENOENT && want(s, build_id))
            x->status.state = NAMES_FETCHING;
        x->pause = symbolizer_may_pass(r) ? MIN(MAX(2 * x->pause, RETRY_SOON), s->o.retry_ns) : s->o.retry_ns;
        if (x->pause < s->o.retry_ns)
            x->status.state = NAMES_DELAYED;
        x->next_try = clock_mono() + x->pause;
    }
    pthread_mutex_unlock(&s->lock);
    if (symbolizer_may_pass(r) && log_limited(&s->log_failed, 10 * NS_PER_S, &held))
        log_warn("names of build ID %.*s could not be looked up (%s); another attempt follows (%llu more like this)",
                 (int) MIN(build_id.n, 64u), build_id.p, err_message(e, r), (unsigned long long) held);
}

static void note_answer(struct name_source *s, const char *tenant, struct str build_id, const struct symbol_answer *a,
                        const uint64_t *addresses)
{
    uint64_t key = key_of(tenant, build_id);
    struct name_entry *x;

    pthread_mutex_lock(&s->lock);
    for (uint32_t i = 0; i < a->n_addresses; i++)
        set_tried(s, hash_mix(key, addresses[i] ^ 0x9e3779b97f4a7c15ull));
    x = get_entry(s, tenant, build_id);
    if (x) {
        x->status.state = NAMES_FOUND;
        x->status.quality = a->quality;
        x->next_try = MAX(x->next_try, 1); /* its quality is known until the file changes */
        x->status.asked += a->n_addresses;
        x->status.why[0] = 0;
        x->pause = 0;
        for (uint32_t i = 0; i < a->n_addresses; i++)
            x->status.named += a->first[i + 1] > a->first[i];
    }
    pthread_mutex_unlock(&s->lock);
}

static int source_look_up(struct names *names, const struct names_request *q, struct symbol_answer **ret,
                          uint64_t **ret_addresses, struct err *e)
{
    struct name_source *s = to_source(names);
    _cleanup_(mem_freep) uint64_t *left = mem_zalloc_array((size_t) q->n + 1, sizeof *left);
    const char *tenant = q->tenant;
    struct str build_id = q->build_id;
    uint32_t n;
    char path[BINARY_PATH_SIZE];
    struct err why = {0};
    struct name_entry *x;
    int r;

    if (!left)
        return -ENOMEM;
    n = not_tried(s, key_of(tenant, build_id), q->addresses, q->n, left);
    if (!n) {
        pthread_mutex_lock(&s->lock);
        x = get_entry(s, tenant, build_id);
        if (x)
            x->next_try = clock_mono() + SETTLED;
        pthread_mutex_unlock(&s->lock);
        return -ENOENT;
    }
    find_file(s, tenant, build_id, path);
    r = ask(s, path, &(struct names_request){tenant, build_id, left, n}, clock_mono() + TURN_MAX, ret, &why);
    if (r < 0 && r != -EAGAIN) /* another one's turn says nothing of this binary */
        note_failure(s, tenant, build_id, r, &why);
    if (r < 0)
        return err_set(e, symbolizer_may_pass(r) ? -EAGAIN : r, "%s", err_message(&why, r));
    note_answer(s, tenant, build_id, *ret, left);
    *ret_addresses = TAKE(left);
    return 0;
}

static const struct names_ops source_ops = {source_hope, source_look_up};

struct names *name_source_names(struct name_source *s)
{
    return s ? &s->names : NULL;
}

int name_source_check(struct name_source *s, const char *path, struct str build_id, struct err *e)
{
    _cleanup_(symbol_answer_freep) struct symbol_answer *a = NULL;
    struct err why = {0};
    int r = ask(s, path, &(struct names_request){.tenant = "", .build_id = build_id}, INT64_MAX, &a, &why);

    if (r < 0)
        return err_set(e, -EINVAL, "the file was rejected: %.400s", err_message(&why, r));
    if (a->quality == SYMBOLS_NONE)
        return err_set(e, -EINVAL, "the file has neither symbols nor debug information");
    return (int) a->quality;
}

int name_source_resolve(struct name_source *s, const char *path, const struct names_request *q,
                        struct symbol_answer **ret, struct err *e)
{
    char found[BINARY_PATH_SIZE];

    if (!path[0])
        find_file(s, q->tenant, q->build_id, found);
    return ask(s, path[0] ? path : found, q, clock_mono() + TURN_MAX, ret, e);
}

void name_source_changed(struct name_source *s, const char *tenant, struct str build_id)
{
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < s->n; i++)
        if (str_is(build_id, s->entries[i].status.build_id) &&
            (strcmp(tenant, BINARY_SHARED) == 0 || strcmp(tenant, s->entries[i].status.tenant) == 0))
            s->entries[i].next_try = s->entries[i].pause = s->entries[i].away = 0;
    map_reset(&s->tried);
    pthread_mutex_unlock(&s->lock);
}

int name_source_list(struct name_source *s, const char *tenant, struct name_status **ret, size_t *ret_n)
{
    struct name_status *v;
    size_t n = 0;

    pthread_mutex_lock(&s->lock);
    v = mem_zalloc_array(s->n + 1, sizeof *v);
    for (size_t i = 0; v && i < s->n; i++)
        if (strcmp(s->entries[i].status.tenant, tenant) == 0)
            v[n++] = s->entries[i].status;
    pthread_mutex_unlock(&s->lock);
    *ret = v;
    *ret_n = n;
    return v ? 0 : -ENOMEM;
}

struct binary_store *name_source_files(struct name_source *s)
{
    return s->o.files;
}

/* --- the background --- */

/* Waits for a build id to fetch; false when stopping. */
static bool next_wanted(struct name_source *s, char ret[BINARY_ID_SIZE])
{
    bool some;

    pthread_mutex_lock(&s->lock);
    while (!s->n_wanted && !s->stopping)
        pthread_cond_wait(&s->more, &s->lock);
    some = !s->stopping;
    if (some) {
        memcpy(ret, s->wanted[0], BINARY_ID_SIZE);
        memmove(s->wanted[0], s->wanted[1], (--s->n_wanted) * sizeof s->wanted[0]);
    }
    pthread_mutex_unlock(&s->lock);
    return some;
}

/* A server that is away, or has too much to do, has not said that there is no such file. */
static bool is_away(int r)
{
    return r != -ENOENT && r != -EFBIG && r != -EINVAL && r != -EOPNOTSUPP;
}

static void not_fetched(struct name_source *s, struct name_entry *x, int r, const struct err *e)
{
    x->status.state = r == -ENOENT ? NAMES_MISSING : NAMES_FAILED;
    snprintf(x->status.why, sizeof x->status.why, "%s", err_message(e, r));
    if (!is_away(r))
        return;
    x->away = MIN(MAX(2 * x->away, RETRY_SOON), s->o.retry_ns);
    x->next_try = clock_mono() + x->away;
    x->status.state = NAMES_DELAYED;
}

static void fetched(struct name_source *s, struct str build_id, int r, const struct err *e)
{
    uint64_t held;

    if (r == 0) {
        name_source_changed(s, BINARY_SHARED, build_id);
        return;
    }
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < s->n; i++)
        if (str_is(build_id, s->entries[i].status.build_id) && s->entries[i].status.state == NAMES_FETCHING)
            not_fetched(s, &s->entries[i], r, e);
    pthread_mutex_unlock(&s->lock);
    if (is_away(r) && r != -ECANCELED && log_limited(&s->log_failed, 10 * NS_PER_S, &held))
        log_warn("debug files could not be fetched (%s); another attempt follows (%llu more like this)",
                 err_message(e, r), (unsigned long long) held);
}

static void *fetch_wanted(void *arg)
{
    struct name_source *s = arg;
    char id[BINARY_ID_SIZE], path[BINARY_PATH_SIZE];

    while (next_wanted(s, id)) {
        struct err e = {0};
        int quality = 0, r = debuginfod_fetch(&s->o.debuginfod, &s->rate, s->o.files, str_from(id), path, &e);

        if (r == 0) {
            r = quality = name_source_check(s, path, str_from(id), &e);
            if (r >= 0)
                r = binary_store_accept(s->o.files, BINARY_SHARED, str_from(id), path, (enum symbol_quality) quality,
                                        &e);
            if (r < 0)
                binary_store_drop(s->o.files, path);
        }
        fetched(s, str_from(id), r, &e);
    }
    return NULL;
}

int name_source_new(const struct name_source_options *o, struct name_source **ret, struct err *e)
{
    struct name_source *s = mem_zalloc(sizeof *s);
    int r = 0;

    if (!s) {
        symbolizer_free(o->symbolizer);
        return -ENOMEM;
    }
    s->names.ops = &source_ops;
    s->o = *o;
    if (!s->o.retry_ns)
        s->o.retry_ns = RETRY_DEFAULT;
    s->o.debuginfod.stop = &s->stop;
    pthread_mutex_init(&s->asking, NULL);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->more, NULL);
    if (o->files && o->debuginfod.n_urls) {
        s->wanted = mem_zalloc_array(WANTED_MAX + 1, sizeof s->wanted[0]);
        r = s->wanted ? thread_start(&s->thread, "debuginfod", fetch_wanted, s, e) : -ENOMEM;
        s->has_thread = r == 0;
    }
    if (r < 0) {
        name_source_free(s);
        return r;
    }
    *ret = s;
    return 0;
}

_unshared_ void name_source_free(struct name_source *s)
{
    if (!s)
        return;
    atomic_store(&s->stop, true);
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    pthread_cond_broadcast(&s->more);
    pthread_mutex_unlock(&s->lock);
    if (s->has_thread)
        pthread_join(s->thread, NULL);
    symbolizer_free(s->o.symbolizer);
    pthread_cond_destroy(&s->more);
    pthread_mutex_destroy(&s->lock);
    pthread_mutex_destroy(&s->asking);
    map_done(&s->tried);
    map_done(&s->by_key);
    mem_free(s->tried_keys);
    mem_free(s->entries);
    mem_free(s->wanted);
    mem_free(s);
}
