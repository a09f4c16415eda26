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
#include "base/map.h"
#include "base/mem.h"
#include "base/thread.h"

enum { ENTRIES_MAX = 8192, TRIED_MAX = 4 << 20, WANTED_MAX = 256 };
#define RETRY_DEFAULT (10 * 60 * NS_PER_S)
#define SETTLED (10 * NS_PER_S) /* a binary all of whose known addresses were looked up */

struct name_entry {
    struct name_status status;
    uint64_t key;
    int64_t next_try; /* monotonic; 0: nothing is known about it yet, or its file has changed */
};

struct name_source {
    struct names names;
    struct name_source_options o;
    pthread_mutex_t asking;
    pthread_mutex_t lock; /* protects everything below */
    pthread_cond_t more;  /* wanted, stopping */
    struct name_entry *entries;
    size_t n, cap;
    size_t victim; /* replaced next when the table is full */
    struct map tried;
    uint64_t *tried_keys; /* hashes of build id and address */
    size_t cap_tried;
    char (*wanted)[BINARY_ID_SIZE];
    unsigned n_wanted;
    bool stopping, has_thread;
    atomic_bool stop;
    struct debuginfod_rate rate;
    pthread_t thread;
};

static struct name_source *to_source(struct names *n)
{
    return container_of(n, struct name_source, names);
}

const char *name_state_word(enum name_state s)
{
    static const char *const names[] = {"found", "missing", "fetching", "failed"};

    return names[s];
}

static uint64_t key_of(const char *tenant, struct str build_id)
{
    return hash_mix(hash64_str(str_from(tenant)), ~hash64_str(build_id));
}

static struct name_entry *find_entry(struct name_source *s, uint64_t key)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->entries[i].key == key)
            return &s->entries[i];
    return NULL;
}

static struct name_entry *get_entry(struct name_source *s, const char *tenant, struct str build_id)
{
    uint64_t key = key_of(tenant, build_id);
    struct name_entry *e = find_entry(s, key);

    if (e)
        return e;
    if (array_reserve(s->entries, s->cap, s->n + 1, ENTRIES_MAX) == 0)
        e = &s->entries[s->n++];
    else if (s->n)
        e = &s->entries[s->victim++ % s->n];
    else
        return NULL;
    *e = (struct name_entry){.key = key};
    snprintf(e->status.tenant, sizeof e->status.tenant, "%s", tenant);
    snprintf(e->status.build_id, sizeof e->status.build_id, "%.*s", STR_FMT(build_id));
    return e;
}

static bool may_ask(struct name_source *s, const char *tenant, struct str build_id, bool for_lines)
{
    const struct name_entry *e;
    bool may;

    if (!binary_id_ok(build_id))
        return false;
    pthread_mutex_lock(&s->lock);
    e = find_entry(s, key_of(tenant, build_id));
    may = !e || clock_mono() >= e->next_try;
    if (may && for_lines && e && e->next_try && e->status.state == NAMES_FOUND)
        may = e->status.quality == SYMBOLS_LINES;
    pthread_mutex_unlock(&s->lock);
    return may;
}

static bool source_may_name(struct names *n, const char *tenant, struct str build_id)
{
    return may_ask(to_source(n), tenant, build_id, false);
}

static bool source_may_line(struct names *n, const char *tenant, struct str build_id)
{
    return may_ask(to_source(n), tenant, build_id, true);
}

/* --- addresses already looked up --- */

static bool was_tried(const struct name_source *s, uint64_t h)
{
    for (struct map_pos p = map_find(&s->tried, h); p.index != MAP_NONE; p = map_next(&s->tried, p))
        if (s->tried_keys[p.index] == h)
            return true;
    return false;
}

static void set_tried(struct name_source *s, uint64_t h)
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
static int ask(struct name_source *s, const char *path, const struct names_request *what, struct symbol_answer **ret,
               struct err *e)
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
    if (fd >= 0) /* by descriptor: where there is no Landlock, the symbolizer can open nothing */
        q.fd = &fd;
    pthread_mutex_lock(&s->asking);
    r = symbolizer_resolve(s->o.symbolizer, &q, ret, e);
    pthread_mutex_unlock(&s->asking);
    return r;
}

/* Queues the build id for the background thread. False if that is not possible. */
static bool want(struct name_source *s, struct str build_id)
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

    pthread_mutex_lock(&s->lock);
    x = get_entry(s, tenant, build_id);
    if (x) {
        x->status.state = r == -ENOENT ? NAMES_MISSING : NAMES_FAILED;
        snprintf(x->status.why, sizeof x->status.why, "%s",
                 r == -ENOENT ? "no file with this build id was uploaded or is installed" : err_message(e, r));
        if (r == -ENOENT && want(s, build_id))
            x->status.state = NAMES_FETCHING;
        x->next_try = clock_mono() + s->o.retry_ns;
    }
    pthread_mutex_unlock(&s->lock);
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
    r = ask(s, path, &(struct names_request){tenant, build_id, left, n}, ret, &why);
    if (r < 0) {
        note_failure(s, tenant, build_id, r, &why);
        return err_set(e, r, "%s", err_message(&why, r));
    }
    note_answer(s, tenant, build_id, *ret, left);
    *ret_addresses = TAKE(left);
    return 0;
}

static const struct names_ops source_ops = {source_may_name, source_may_line, source_look_up};

struct names *name_source_names(struct name_source *s)
{
    return s ? &s->names : NULL;
}

int name_source_check(struct name_source *s, const char *path, struct str build_id, struct err *e)
{
    _cleanup_(symbol_answer_freep) struct symbol_answer *a = NULL;
    struct err why = {0};
    int r = ask(s, path, &(struct names_request){.tenant = "", .build_id = build_id}, &a, &why);

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
    return ask(s, path[0] ? path : found, q, ret, e);
}

void name_source_changed(struct name_source *s, const char *tenant, struct str build_id)
{
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < s->n; i++)
        if (str_is(build_id, s->entries[i].status.build_id) &&
            (strcmp(tenant, BINARY_SHARED) == 0 || strcmp(tenant, s->entries[i].status.tenant) == 0))
            s->entries[i].next_try = 0;
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

static void fetched(struct name_source *s, struct str build_id, int r, const struct err *e)
{
    if (r == 0) {
        name_source_changed(s, BINARY_SHARED, build_id);
        return;
    }
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < s->n; i++)
        if (str_is(build_id, s->entries[i].status.build_id) && s->entries[i].status.state == NAMES_FETCHING) {
            s->entries[i].status.state = r == -ENOENT ? NAMES_MISSING : NAMES_FAILED;
            snprintf(s->entries[i].status.why, sizeof s->entries[i].status.why, "%s", err_message(e, r));
        }
    pthread_mutex_unlock(&s->lock);
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

void name_source_free(struct name_source *s)
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
    mem_free(s->tried_keys);
    mem_free(s->entries);
    mem_free(s->wanted);
    mem_free(s);
}
