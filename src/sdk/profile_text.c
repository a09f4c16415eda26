/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text for ?debug=1 of /debug/pprof/, as Go's runtime/pprof writes it; pprof reads it as its legacy formats.
 *   heap      heap profile: 1: 64 [2: 128] @ heap/524288      in use: objects: bytes [allocated: the same]
 *   mutex     --- mutex:  cycles/second=1000000000            contentions and nanoseconds
 *   others    goroutine profile: total 3
 * A stack is "numbers @ 0xPC 0xPC", and a line "#\t0xPC\tname+0xOFFSET\tfile:line" for each frame.
 */
#include "base/buf.h"
#include "demangle/demangle.h"
#include "sdk/frame_table.h"
#include "sdk/heap_view.h"
#include "sdk/modules.h"
#include "sdk/profile.h"

static uint64_t address_of(const struct sdk_frame *f)
{
    const struct module_file *m = f->file ? modules_file(f->file) : NULL;

    return f->address + (m ? m->bias : 0);
}

static void put_name(struct buf *out, const struct sdk_frame *f)
{
    size_t before = out->n;

    if (!f->name.n)
        buf_puts(out, "??");
    else if (f->file == FRAME_EXTERNAL)
        buf_put(out, f->name.p, f->name.n);
    else if (demangle_function(f->name, DEMANGLE_SIMPLE, out) < 0 || out->n == before)
        buf_put(out, f->name.p, f->name.n);
}

static void put_frames(struct buf *out, const uint32_t *frames, uint32_t n)
{
    buf_puts(out, " @");
    for (uint32_t i = 0; i < n; i++)
        buf_printf(out, " 0x%llx", (unsigned long long) address_of(frame_at(frames[i])) + 1); /* return address */
    for (uint32_t i = 0; i < n; i++) {
        const struct sdk_frame *f = frame_at(frames[i]);

        buf_printf(out, "\n#\t0x%llx\t", (unsigned long long) address_of(f));
        put_name(out, f);
        buf_printf(out, "+0x%llx\t\t", (unsigned long long) (f->start ? f->address - f->start : 0));
        if (f->lines.n)
            buf_printf(out, "%.*s:%lld", STR_FMT(f->lines.v[f->lines.n - 1].file),
                       (long long) f->lines.v[f->lines.n - 1].line);
        else
            buf_puts(out, frame_file(f));
    }
    buf_puts(out, "\n\n");
}

static void put_heap_line(struct buf *out, const int64_t *v)
{
    buf_printf(out, "%lld: %lld [%lld: %lld]", (long long) v[2], (long long) v[3], (long long) v[0], (long long) v[1]);
}

static void put_heap(const struct profile_part *part, struct buf *out)
{
    int64_t sum[4] = {0};
    struct heap_view v;

    for (uint32_t i = 0, n = heap_view_count(); i < n; i++) {
        profile_heap_at(part, i, &v);
        for (int k = 0; k < 4; k++)
            sum[k] += v.v[k];
    }
    buf_puts(out, "heap profile: ");
    put_heap_line(out, sum);
    buf_puts(out, " @ heap/1\n"); /* numbers are already scaled: a period of 1 keeps readers from scaling them again */
    for (uint32_t i = 0, n = heap_view_count(); i < n; i++) {
        profile_heap_at(part, i, &v);
        if (!(v.v[0] | v.v[1] | v.v[2] | v.v[3]))
            continue;
        put_heap_line(out, v.v);
        put_frames(out, v.frames, v.n);
    }
}

static void put_agg(const struct profile_part *part, struct buf *out)
{
    const struct agg *a = part->agg;
    long long total = 0;

    for (size_t i = 0; i < a->n; i++)
        total += a->v[i].value[0];
    if (part->type == TYPE_LOCK)
        buf_puts(out, "--- mutex:\ncycles/second=1000000000\nsampling period=1\n");
    else
        buf_printf(out, "%s profile: total %lld\n", part->type == TYPE_GOROUTINE ? "goroutine" : "threadcreate", total);
    for (size_t i = 0; i < a->n; i++) {
        const struct agg_entry *e = &a->v[i];

        if (part->type == TYPE_LOCK)
            buf_printf(out, "%lld %lld", (long long) e->value[1], (long long) e->value[0]);
        else
            buf_printf(out, "%lld", (long long) e->value[0]);
        put_frames(out, a->frames + e->stack, e->n);
    }
}

int profile_make_text(const struct profile_part *part, struct buf *out, struct err *e)
{
    profile_name_parts(part, 1);
    if (part->type == TYPE_HEAP)
        put_heap(part, out);
    else
        put_agg(part, out);
    return buf_error(out) ? err_set(e, buf_error(out), "out of memory for a profile") : 0;
}
