/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a .cpuprofile (json_write.h), the DevTools protocol's Profiler.Profile. Readers give a sample the time until the
 * next one, so delta i + 1 is the value of sample i, and endTime closes the last one.
 */
#include <errno.h>

#include "base/json.h"
#include "base/mem.h"
#include "codec/frame_name.h"
#include "codec/jsonfile/call_tree.h"
#include "codec/jsonfile/json_write.h"

struct cpu_writer {
    const struct batch *b;
    struct call_tree tree;
    uint32_t *first, *next; /* children of a node, as a list; 0 ends it */
    int64_t *hits;
    struct buf scratch;
    struct buf *out;
};

static void put_call_frame(struct cpu_writer *w, size_t i)
{
    const struct call_tree_node *n = &w->tree.nodes[i];
    const struct dict *d = &w->b->dict;
    const struct location *l = &d->locations[n->location];
    struct str file = {0};
    int64_t line = -1, column = -1;

    buf_reset(&w->scratch);
    if (i == 0) {
        buf_puts(&w->scratch, "(root)");
    } else {
        frame_name(w->b, n->location, n->line, &w->scratch);
        if (n->line < l->lines.n) {
            const struct line *at = &d->lines[l->lines.off + n->line];

            file = d->strings[d->functions[at->function].filename];
            line = at->line - 1;
            column = at->column - 1;
        }
    }
    buf_puts(w->out, "\"callFrame\":{\"functionName\":");
    json_put_str(w->out, buf_str(&w->scratch));
    buf_puts(w->out, ",\"scriptId\":\"0\",\"url\":");
    json_put_str(w->out, file);
    buf_printf(w->out, ",\"lineNumber\":%lld,\"columnNumber\":%lld}", (long long) line, (long long) column);
}

static void put_nodes(struct cpu_writer *w)
{
    bool first = true;

    for (size_t i = 0; i < w->tree.n; i++) {
        bool first_child = true;

        json_sep(w->out, &first);
        buf_printf(w->out, "{\"id\":%zu,", i + 1);
        put_call_frame(w, i);
        buf_printf(w->out, ",\"hitCount\":%lld", (long long) w->hits[i]);
        if (w->first[i]) {
            buf_puts(w->out, ",\"children\":[");
            for (uint32_t k = w->first[i]; k; k = w->next[k]) {
                json_sep(w->out, &first_child);
                json_put_u64(w->out, (uint64_t) k + 1);
            }
            buf_putc(w->out, ']');
        }
        buf_putc(w->out, '}');
    }
}

/* Nanoseconds, or another unit as it is, in microseconds with three digits after the point. */
static void put_time(struct buf *out, int64_t v, bool ns)
{
    if (ns && v % 1000)
        buf_printf(out, "%lld.%03d", (long long) (v / 1000), (int) (v % 1000));
    else
        json_put_i64(out, ns ? v / 1000 : v);
}

static void put_samples(struct cpu_writer *w, const struct profile *p, uint32_t type)
{
    bool ns = str_is(w->b->dict.strings[p->types[type].unit], "nanoseconds"), first = true;
    int64_t before = 0, sum = 0;

    buf_puts(w->out, "],\"samples\":[");
    for (uint32_t i = 0; i < p->samples.n; i++)
        if (batch_sample_value(w->b, p, &w->b->samples[p->samples.off + i], type) > 0) {
            json_sep(w->out, &first);
            json_put_u64(w->out, (uint64_t) w->tree.leaves[i] + 1);
        }
    buf_puts(w->out, "],\"timeDeltas\":[");
    first = true;
    for (uint32_t i = 0; i < p->samples.n; i++) {
        int64_t v = batch_sample_value(w->b, p, &w->b->samples[p->samples.off + i], type);

        if (v <= 0)
            continue;
        json_sep(w->out, &first);
        put_time(w->out, before, ns);
        before = v;
        sum = wrap_add(sum, v);
    }
    buf_puts(w->out, "],\"startTime\":0,\"endTime\":");
    put_time(w->out, sum, ns);
    buf_puts(w->out, "}\n");
}

static int link_children(struct cpu_writer *w, const struct profile *p, uint32_t type)
{
    w->first = mem_zalloc_array(w->tree.n, sizeof *w->first);
    w->next = mem_zalloc_array(w->tree.n, sizeof *w->next);
    w->hits = mem_zalloc_array(w->tree.n, sizeof *w->hits);
    if (!w->first || !w->next || !w->hits)
        return -ENOMEM;
    for (size_t i = w->tree.n - 1; i > 0; i--) { /* from the end, so that lists are in order */
        uint32_t parent = w->tree.nodes[i].parent;

        w->next[i] = w->first[parent];
        w->first[parent] = (uint32_t) i;
    }
    for (uint32_t i = 0; i < p->samples.n; i++)
        w->hits[w->tree.leaves[i]] += batch_sample_value(w->b, p, &w->b->samples[p->samples.off + i], type) > 0;
    return 0;
}

int cpuprofile_encode(const struct batch *b, const struct profile *p, uint32_t type, struct buf *out, struct err *e)
{
    struct cpu_writer w = {.b = b, .out = out};
    int r = call_tree_build(b, p, &w.tree);

    if (r == 0)
        r = link_children(&w, p, type);
    if (r == 0) {
        buf_puts(out, "{\"nodes\":[");
        put_nodes(&w);
        put_samples(&w, p, type);
        r = buf_error(&w.scratch) ? buf_error(&w.scratch) : buf_error(out);
    }
    call_tree_done(&w.tree);
    mem_free(w.first);
    mem_free(w.next);
    mem_free(w.hits);
    buf_done(&w.scratch);
    return r < 0 ? err_set(e, r, "cannot write .cpuprofile: %m") : 0;
}
