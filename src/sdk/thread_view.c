/* SPDX-License-Identifier: Apache-2.0 */
/* The current stack of every thread and the stack that started it (thread_view.h), as sums for pprof and as text. */
#include "sdk/thread_view.h"

#include <fcntl.h>
#include <stdio.h>

#include "base/buf.h"
#include "demangle/demangle.h"
#include "sdk/frame_table.h"
#include "sdk/sys.h"
#include "sdk/wall.h"

static const struct ring_record plain;

/* Frame numbers of a thread's current stack; *ret_state says how it was obtained. */
static uint32_t frames_now(struct thr *t, uint32_t *ids, const char **ret_state)
{
    uint32_t seq = atomic_load_explicit(&t->block_seq, memory_order_acquire), n = 0, generation;
    const struct ring_record *r = NULL;
    uint64_t pc[CORE_DEPTH_MAX];
    uint8_t flags = 0;

    *ret_state = "waiting";
    if (seq & 1) {
        n = wall_blocked_stack(t, pc, &flags, &generation);
        if (atomic_load(&t->block_seq) != seq) /* it resumed in the meantime */
            n = 0;
        n = frames_resolve(pc, n, n ? generation : 0, ids);
    }
    if (!n && (r = wall_asleep(t, thr_cpu_ns(t->tid)))) {
        n = frames_resolve(r->pc, r->n, r->generation, ids);
        flags = r->flags;
    }
    if (!n) {
        *ret_state = "running";
        if (t->last)
            n = frames_resolve(t->last->pc, MIN(t->last->n, (uint16_t) CORE_DEPTH_MAX), t->last->generation, ids);
    }
    if (flags & (RECORD_CUT_DEPTH | RECORD_CUT_RULE))
        ids[n++] = FRAME_CUT;
    if (!n)
        ids[n++] = FRAME_PARKED;
    return n;
}

/* The next live thread at index *i or above. */
static struct thr *next_thread(uint32_t *i)
{
    for (uint32_t n = atomic_load(&core.n_thrs); *i < n; ++*i) {
        struct thr *t = thr_at(*i);

        if (t && atomic_load(&t->state) == THR_ACTIVE && thr_cpu_ns(t->tid) >= 0)
            return t;
    }
    return NULL;
}

void thread_view_now(struct agg *a)
{
    uint32_t ids[CORE_DEPTH_MAX + 2];
    struct thr *t;

    for (uint32_t i = 0; (t = next_thread(&i)); i++) {
        const char *state;
        uint32_t n = frames_now(t, ids, &state);

        agg_add(a, &plain, ids, n, 1, 0);
    }
}

void thread_view_created(struct agg *a)
{
    const struct module_set *set = atomic_load(&core.modules);
    uint32_t ids[THR_CREATED + 1];
    struct thr *t;

    for (uint32_t i = 0; (t = next_thread(&i)); i++) {
        uint32_t n = frames_resolve(t->created, t->created_n, set ? set->generation : 0, ids);

        agg_add(a, &plain, ids, n, 1, 0);
    }
}

/* --- text --- */
static void put_name(struct buf *out, const struct sdk_frame *f)
{
    size_t before = out->n;

    if (!f->name.n)
        buf_printf(out, "0x%llx", (unsigned long long) f->address);
    else if (demangle_function(f->name, DEMANGLE_SIMPLE, out) < 0 || out->n == before)
        buf_put(out, f->name.p, f->name.n);
}

static void put_thread_name(struct buf *out, int tid)
{
    char path[64], name[32];
    long n;
    int fd;

    snprintf(path, sizeof path, "/proc/self/task/%d/comm", tid);
    fd = (int) sys_call(SYS_openat, AT_FDCWD, (long) path, O_RDONLY | O_CLOEXEC, 0);
    n = fd >= 0 ? sys_call(SYS_read, fd, (long) name, sizeof name, 0) : 0;
    if (fd >= 0)
        sys_call(SYS_close, fd, 0, 0, 0);
    if (n > 1)
        buf_printf(out, ", thread %.*s", (int) n - 1, name);
}

void thread_view_print(struct buf *out)
{
    uint32_t ids[CORE_DEPTH_MAX + 2];
    struct thr *t;

    for (uint32_t i = 0; (t = next_thread(&i)); i++) {
        const char *state;
        uint32_t n = frames_now(t, ids, &state);

        buf_printf(out, "goroutine %d [%s", t->tid, state);
        put_thread_name(out, t->tid);
        buf_puts(out, "]:\n");
        frames_name(ids, n);
        for (uint32_t k = 0; k < n; k++) {
            const struct sdk_frame *f = frame_at(ids[k]);

            put_name(out, f);
            if (f->lines.n)
                buf_printf(out, "(...)\n\t%.*s:%lld", STR_FMT(f->lines.v[f->lines.n - 1].file),
                           (long long) f->lines.v[f->lines.n - 1].line);
            else
                buf_printf(out, "(...)\n\t%s:0", frame_file(f));
            buf_printf(out, " +0x%llx\n", (unsigned long long) (f->start ? f->address - f->start : 0));
        }
        buf_puts(out, "\n");
    }
}
