/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interned frames of extensions (ext.h, ext_frames.h). They live in chunks that are never freed, and are looked up in a
 * map under a lock; readers use the number and need no lock.
 */
#include "sdk/ext_frames.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/mem.h"
#include "sdk/ext.h"

enum { CHUNK = 1024, CHUNKS = 1024, TEXT_MAX = 65535 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(struct ext_frame *) chunks[CHUNKS];
static _Atomic uint32_t n_frames;
static struct map index_;
static struct arena texts;
static _Atomic(wick_ext_namer *) namer;

void ext_frames_fork_prepare(void)
{
    pthread_mutex_lock(&lock);
}

void ext_frames_fork_done(void)
{
    pthread_mutex_unlock(&lock);
}

static struct ext_frame *at(uint32_t i)
{
    return &atomic_load_explicit(&chunks[i / CHUNK], memory_order_acquire)[i % CHUNK];
}

const struct ext_frame *ext_frames_at(uint64_t number)
{
    uint64_t i = number & ~(0xffffull << 48);

    return ext_frames_is(number) && i && i <= atomic_load_explicit(&n_frames, memory_order_acquire)
               ? at((uint32_t) i - 1)
               : NULL;
}

static struct str text_of(const char *s, const char *otherwise)
{
    struct str t = str_from(s ? s : otherwise);

    return str_slice(t, 0, TEXT_MAX);
}

static bool same(const struct ext_frame *a, const struct ext_frame *b)
{
    return a->line.line == b->line.line && a->line.start_line == b->line.start_line &&
           str_eq(a->line.function, b->line.function) && str_eq(a->line.file, b->line.file) && str_eq(a->kind, b->kind);
}

static uint64_t hash_of(const struct ext_frame *f)
{
    uint64_t h = hash64(f->line.function.p, f->line.function.n) ^ 0x9e3779b97f4a7c15ull;

    h = hash_mix(h, hash64(f->line.file.p, f->line.file.n) ^ (uint64_t) f->line.start_line);
    return hash_mix(h, hash64(f->kind.p, f->kind.n) ^ (uint64_t) f->line.line << 20);
}

/* Called under the lock. Returns the number of the frame, 0 if out of memory. */
static uint32_t add(const struct ext_frame *f, uint64_t h)
{
    uint32_t n = atomic_load(&n_frames);
    struct ext_frame kept = *f;
    struct ext_frame *chunk;

    if (n == CHUNK * CHUNKS)
        return 0;
    if (!atomic_load(&chunks[n / CHUNK])) {
        chunk = mem_zalloc(CHUNK * sizeof *chunk);
        if (!chunk)
            return 0;
        atomic_store_explicit(&chunks[n / CHUNK], chunk, memory_order_release);
    }
    kept.line.function = kept.line.system_name = arena_str(&texts, f->line.function);
    kept.line.file = arena_str(&texts, f->line.file);
    kept.kind = arena_str(&texts, f->kind);
    if (kept.line.function.n != f->line.function.n || kept.line.file.n != f->line.file.n || kept.kind.n != f->kind.n ||
        map_insert(&index_, h, n) < 0)
        return 0;
    *at(n) = kept;
    atomic_store_explicit(&n_frames, n + 1, memory_order_release);
    return n + 1;
}

uint64_t wick_ext_frame(const struct wick_ext_frame *f)
{
    struct ext_frame wanted = {.line = {.function = text_of(f->function, "?"),
                                        .file = text_of(f->file, ""),
                                        .line = f->line,
                                        .start_line = f->start_line},
                               .kind = text_of(f->kind, "native")};
    uint64_t h = hash_of(&wanted);
    uint32_t number = 0;

    pthread_mutex_lock(&lock);
    if (!texts.limit)
        arena_init(&texts, 32 << 20);
    for (struct map_pos p = map_find(&index_, h); p.index != MAP_NONE && !number; p = map_next(&index_, p))
        if (same(at(p.index), &wanted))
            number = p.index + 1;
    if (!number)
        number = add(&wanted, h);
    pthread_mutex_unlock(&lock);
    return number ? EXT_FRAMES_TAG | number : 0;
}

void ext_frames_set_namer(wick_ext_namer *given)
{
    atomic_store(&namer, given);
}

uint64_t ext_frames_name_late(uint64_t pc)
{
    wick_ext_namer *ask = atomic_load(&namer);
    struct wick_ext_frame f = {0};

    return ask && ask(pc & ~(0xffffull << 48), &f) ? wick_ext_frame(&f) : 0;
}
