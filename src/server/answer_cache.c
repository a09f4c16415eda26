/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Implements answer_cache.h: a small table that is searched from end to end, since an answer takes a thousand times as
 * long as that. A slot is free, being made (`making`), or has an answer.
 */
#include "server/answer_cache.h"

#include <errno.h>
#include <pthread.h>

#include "base/hash.h"
#include "base/mem.h"

enum { SLOTS = 512, PART_MAX = 4 }; /* one answer may take a fourth of the bytes */

struct cache_slot {
    char *key; /* NULL: free */
    size_t n_key;
    uint64_t hash;
    int64_t begun, used;
    bool making;
    bool outdated; /* data were deleted while it was being made */
    struct answer_waiter *waiters;
    struct kept_answer answer;
};

struct answer_cache {
    pthread_mutex_t lock;
    struct cache_slot slots[SLOTS] _guarded_by_(lock);
    size_t max;
    int64_t clock _guarded_by_(lock); /* counts uses */
    struct answer_cache_stats stats _guarded_by_(lock);
};

int answer_cache_new(size_t max_bytes, struct answer_cache **ret)
{
    struct answer_cache *c = mem_zalloc(sizeof *c);

    if (!c)
        return -ENOMEM;
    pthread_mutex_init(&c->lock, NULL);
    c->max = max_bytes;
    *ret = c;
    return 0;
}

static void free_slot(struct answer_cache *c, struct cache_slot *s) _locked_(c->lock)
{
    c->stats.bytes -= s->making ? 0 : s->answer.body.n + s->n_key;
    mem_free(s->key);
    buf_done(&s->answer.body);
    *s = (struct cache_slot){0};
}

_unshared_ void answer_cache_free(struct answer_cache *c)
{
    if (!c)
        return;
    for (int i = 0; i < SLOTS; i++)
        if (c->slots[i].key)
            free_slot(c, &c->slots[i]);
    pthread_mutex_destroy(&c->lock);
    mem_free(c);
}

static struct cache_slot *find(struct answer_cache *c, struct str key, uint64_t hash)
{
    for (int i = 0; i < SLOTS; i++) {
        struct cache_slot *s = &c->slots[i];

        if (s->key && s->hash == hash && str_eq((struct str){s->key, s->n_key}, key))
            return s;
    }
    return NULL;
}

/* The answer that was not used for the longest time; NULL when all are being made or there is none. */
static struct cache_slot *least_used(struct answer_cache *c, const struct cache_slot *except)
{
    struct cache_slot *best = NULL;

    for (int i = 0; i < SLOTS; i++) {
        struct cache_slot *s = &c->slots[i];

        if (s->key && !s->making && s != except && (!best || s->used < best->used))
            best = s;
    }
    return best;
}

static struct cache_slot *take_slot(struct answer_cache *c) _locked_(c->lock)
{
    struct cache_slot *s = NULL;

    for (int i = 0; i < SLOTS && !s; i++)
        s = c->slots[i].key ? NULL : &c->slots[i];
    if (s)
        return s;
    s = least_used(c, NULL);
    if (s)
        free_slot(c, s);
    return s;
}

/* Begins an answer that others can wait for. */
static bool begin(struct answer_cache *c, const struct answer_question *q, uint64_t hash) _locked_(c->lock)
{
    char *key = mem_alloc(q->key.n + 1);
    struct cache_slot *s = key ? take_slot(c) : NULL;

    if (!s) {
        mem_free(key);
        return false;
    }
    memcpy(key, q->key.p, q->key.n);
    *s = (struct cache_slot){.key = key, .n_key = q->key.n, .hash = hash, .begun = q->now, .making = true};
    c->stats.made++;
    return true;
}

static bool copy_answer(const struct cache_slot *s, int64_t now, struct kept_answer *ret)
{
    struct kept_answer a = s->answer;

    a.body = BUF_INIT;
    buf_put(&a.body, s->answer.body.p, s->answer.body.n);
    if (buf_error(&a.body)) {
        buf_done(&a.body);
        return false;
    }
    a.age_ns = now - s->begun;
    *ret = a;
    return true;
}

enum answer_found answer_cache_find(struct answer_cache *c, const struct answer_question *q, struct answer_waiter *w,
                                    struct kept_answer *ret)
{
    uint64_t hash = hash64_str(q->key);
    enum answer_found found = ANSWER_ALONE;
    struct cache_slot *s;

    pthread_mutex_lock(&c->lock);
    s = find(c, q->key, hash);
    if (s && !s->making && s->begun < q->oldest) {
        free_slot(c, s);
        s = NULL;
    }
    if (!s) {
        found = begin(c, q, hash) ? ANSWER_MAKE : ANSWER_ALONE;
    } else if (!s->making) {
        s->used = ++c->clock;
        found = copy_answer(s, q->now, ret) ? ANSWER_SHARED : ANSWER_ALONE;
        c->stats.shared += found == ANSWER_SHARED;
    } else if (s->begun >= q->oldest && !s->outdated) {
        w->next = s->waiters;
        s->waiters = w;
        c->stats.waited++;
        found = ANSWER_WAIT;
    }
    pthread_mutex_unlock(&c->lock);
    return found;
}

static void resume(struct answer_waiter *w)
{
    struct answer_waiter *next;

    for (; w; w = next) {
        next = w->next; /* a waiter may be gone once it is resumed */
        w->resume(w);
    }
}

/* Stores a copy; returns false when it is not kept. */
static bool store(struct answer_cache *c, struct cache_slot *s, const struct kept_answer *a) _locked_(c->lock)
{
    struct cache_slot *old;

    if (a->body.n + s->n_key > c->max / PART_MAX)
        return false;
    s->answer = *a;
    s->answer.body = BUF_INIT;
    buf_put(&s->answer.body, a->body.p, a->body.n);
    if (buf_error(&s->answer.body))
        return false;
    s->making = false;
    s->used = ++c->clock;
    c->stats.bytes += s->answer.body.n + s->n_key;
    while (c->stats.bytes > c->max && (old = least_used(c, s)))
        free_slot(c, old);
    return true;
}

static void end(struct answer_cache *c, struct str key, const struct kept_answer *a)
{
    struct answer_waiter *waiters = NULL;
    struct cache_slot *s;

    pthread_mutex_lock(&c->lock);
    s = find(c, key, hash64_str(key));
    if (s && s->making) {
        waiters = s->waiters;
        s->waiters = NULL;
        if (!a || s->outdated || !store(c, s, a))
            free_slot(c, s);
    }
    pthread_mutex_unlock(&c->lock);
    resume(waiters);
}

void answer_cache_keep(struct answer_cache *c, struct str key, const struct kept_answer *a)
{
    end(c, key, a);
}

void answer_cache_fail(struct answer_cache *c, struct str key)
{
    end(c, key, NULL);
}

void answer_cache_clear(struct answer_cache *c)
{
    pthread_mutex_lock(&c->lock);
    for (int i = 0; i < SLOTS; i++) {
        struct cache_slot *s = &c->slots[i];

        if (s->key && s->making)
            s->outdated = true;
        else if (s->key)
            free_slot(c, s);
    }
    pthread_mutex_unlock(&c->lock);
}

void answer_cache_stats(struct answer_cache *c, struct answer_cache_stats *ret)
{
    pthread_mutex_lock(&c->lock);
    *ret = c->stats;
    pthread_mutex_unlock(&c->lock);
}
