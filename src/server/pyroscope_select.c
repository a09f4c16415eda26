/* SPDX-License-Identifier: Apache-2.0 */
/* Pyroscope's queries for data: flame graphs and diffs. See pyroscope.h; pyroscope_merge.c merges profiles. */
#include <errno.h>

#include "base/base64.h"
#include "base/clock.h"
#include "base/wire.h"
#include "base/wrap.h"
#include "codec/pprof.h"
#include "query/flamebearer.h"
#include "server/pprof_json.h"
#include "server/pyroscope.h"

enum { NODES_DEFAULT = 8192 };

/* --- flame graphs --- */

static int put_flamegraph(struct pbjson *w, const struct tree *t)
{
    struct flamebearer f;
    int r = flamebearer_make(t, &f);

    if (r < 0)
        return r;
    pbjson_begin(w, 1, "flamegraph");
    pbjson_list(w, "names");
    for (uint32_t i = 0; i < f.n_names; i++)
        pbjson_str(w, 1, NULL, flamebearer_name(&f, t, i));
    pbjson_list_end(w);
    pbjson_list(w, "levels");
    for (uint32_t l = 0; l < f.n_levels; l++) {
        pbjson_begin(w, 2, NULL);
        pbjson_i64s(w, 1, "values", f.values + f.level_at[l], f.level_at[l + 1] - f.level_at[l]);
        pbjson_end(w);
    }
    pbjson_list_end(w);
    pbjson_i64(w, 3, "total", wrap_add(f.ticks[0], f.ticks[1]));
    pbjson_i64(w, 4, "maxSelf", f.max_self);
    if (t->n_columns > 1) {
        pbjson_i64(w, 5, "leftTicks", f.ticks[0]);
        pbjson_i64(w, 6, "rightTicks", f.ticks[1]);
    }
    pbjson_end(w);
    flamebearer_done(&f);
    return 0;
}

static struct str node_name(const struct tree *t, uint32_t node, struct arena *a)
{
    const struct frame *f;
    char *made;

    if (t->frame[node] == TREE_FOLDED)
        return STR("other");
    f = &t->frames[t->frame[node]];
    if (f->function.n)
        return f->function;
    made = arena_printf(a, "%.*s+0x%llx", STR_FMT(f->mapping), (unsigned long long) f->address);
    return made ? str_from(made) : STR("[unknown]");
}

/* Pyroscope's tree: per node, beginning with a root without a name, the length of its name, the name, its own value and the
 * number of its children; children are visited last one first. */
static int put_tree(struct buf *out, const struct tree *t, struct arena *a)
{
    uint32_t n = t->n_nodes, *first = arena_zalloc_array(a, n + 1u, sizeof *first),
             *next = arena_zalloc_array(a, n + 1u, sizeof *next), *count = arena_zalloc_array(a, n + 1u, sizeof *count),
             *stack = arena_zalloc_array(a, n + 1u, sizeof *stack), top = 0;

    if (!first || !next || !count || !stack)
        return -ENOMEM;
    for (uint32_t i = 1; i < n; i++) { /* lists of children, node 0 has no parent */
        next[i] = first[t->parent[i]];
        first[t->parent[i]] = i;
        count[t->parent[i]]++;
    }
    stack[top++] = 0;
    while (top) {
        uint32_t i = stack[--top];
        struct str name = i ? node_name(t, i, a) : (struct str){"", 0};

        wire_put_varint(out, name.n);
        buf_put_str(out, name);
        wire_put_varint(out, (uint64_t) (i ? MAX(t->self[0][i], 0) : 0));
        wire_put_varint(out, count[i]);
        for (uint32_t k = first[i]; k; k = next[k])
            stack[top++] = k;
    }
    return buf_error(out);
}

/* Names of a path joined by ';', as the parameter zoom takes it. */
static struct str zoom_of(struct arena *a, const struct pbjson_strs *names)
{
    struct buf b = BUF_INIT;
    struct str s;

    for (uint32_t i = 0; i < names->n; i++) {
        if (i)
            buf_putc(&b, ';');
        for (uint32_t k = 0; k < names->v[i].n; k++) {
            if (names->v[i].p[k] == ';' || names->v[i].p[k] == '\\')
                buf_putc(&b, '\\');
            buf_putc(&b, names->v[i].p[k]);
        }
    }
    s = arena_str(a, buf_str(&b));
    buf_done(&b);
    return s;
}

/* 7c9e6679-7425-40de-944b-e07fc1f90ae7 without the dashes. */
static struct str without_dashes(struct arena *a, struct str id)
{
    char *text = arena_alloc_aligned(a, id.n + 1, 1);
    uint32_t n = 0;

    for (uint32_t i = 0; text && i < id.n; i++)
        if (id.p[i] != '-')
            text[n++] = id.p[i];
    return (struct str){text ? text : "", n};
}

int py_each_part(struct call *c, struct py_request *r, bool diff, int (*fn)(void *ctx, struct query *q, struct err *e),
                 void *ctx, struct err *e)
{
    const struct py_select *s = &r->left;
    uint32_t n = MAX(s->profile_ids.n, 1u) * MAX(s->trace_ids.n, 1u) * MAX(s->spans.n, 1u);
    int result = 0;

    if (n > 1000 || (diff && n > 1))
        return err_set(e, -EINVAL,
                       diff ? "a diff of several profiles, traces or spans is not supported"
                            : "too many profiles, traces and spans at once");
    for (uint32_t i = 0; result == 0 && i < n; i++) {
        uint32_t rest = i / MAX(s->profile_ids.n, 1u);
        struct query_params p = {.any_trace = true, .zoom = zoom_of(&c->q->arena, &s->call_site)};
        _cleanup_(query_freep) struct query *q = NULL;

        if (s->profile_ids.n)
            result = query_params_set(
                &p, "profile", without_dashes(&c->q->arena, s->profile_ids.v[i % s->profile_ids.n]), e);
        if (result == 0 && s->trace_ids.n)
            result = query_params_set(&p, "trace_id", s->trace_ids.v[rest % s->trace_ids.n], e);
        if (result == 0 && s->spans.n)
            result = query_params_set(&p, "span_id", s->spans.v[rest / MAX(s->trace_ids.n, 1u)], e);
        if (result == 0)
            result = py_compile(c, r, diff, &p, &q, e);
        if (result == 0)
            result = fn(ctx, q, e);
    }
    return result;
}

struct py_merging {
    struct call *call;
    const struct py_request *request;
    struct tree *all;
};

static int merge_tree(void *ctx, struct query *q, struct err *e)
{
    struct py_merging *m = ctx;
    _cleanup_(tree_freep) struct tree *t = NULL;
    int result;

    if (!q->q.max_nodes)
        q->q.max_nodes = NODES_DEFAULT;
    result = py_flame(m->call, m->request, q, &t, e);
    if (result == 0 && !m->all)
        m->all = TAKE(t);
    else if (result == 0)
        result = tree_merge(m->all, 0, t, 0);
    return result;
}

int py_tree(struct call *c, struct py_request *r, bool diff, struct tree **ret, struct err *e)
{
    struct py_merging m = {.call = c, .request = r};
    int result = py_each_part(c, r, diff, merge_tree, &m, e);

    if (result < 0)
        tree_free(m.all);
    else
        *ret = m.all;
    return result;
}

static int put_pprof(struct call *c, struct py_request *r, struct pbjson *w, struct err *e)
{
    _cleanup_(batch_unrefp) struct batch *one = NULL;
    _cleanup_(buf_done) struct buf message = BUF_INIT;
    int result = py_merge(c, r, &one, e);

    if (result == 0 && one->n_profiles)
        result = pprof_encode_with(one, &one->profiles[0], call_damage(c), &message, e);
    if (result < 0)
        return result;
    pbjson_begin(w, 5, "pprof");
    pbjson_begin(w, 1, "profile");
    if (w->json && message.n)
        result = pprof_json(&c->out, &w->first[w->depth], buf_str(&message), e);
    else
        buf_put_str(&c->out, buf_str(&message));
    pbjson_end(w);
    pbjson_end(w);
    return result;
}

int py_stacktraces(struct call *c, struct py_request *r, struct pbjson *w, struct err *e)
{
    _cleanup_(tree_freep) struct tree *t = NULL;
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    int result;

    if (r->left.async)
        return err_set(e, -ENOSYS, "asynchronous queries are not supported; send the request without 'async'");
    if (r->left.format == PY_FORMAT_PPROF)
        return put_pprof(c, r, w, e);
    if (r->left.format == PY_FORMAT_DOT) {
        result = py_dot(c, r, &text, e);
        if (result == 0)
            pbjson_str(w, 3, "dot", buf_str(&text));
        return result;
    }
    result = py_tree(c, r, false, &t, e);
    if (result < 0)
        return result;
    if (r->left.format != PY_FORMAT_TREE)
        return put_flamegraph(w, t);
    result = put_tree(&text, t, &c->q->arena);
    if (result == 0 && w->json) {
        _cleanup_(buf_done) struct buf coded = BUF_INIT;

        base64_encode(&coded, text.p, text.n);
        pbjson_str(w, 2, "tree", buf_str(&coded));
    } else if (result == 0) {
        pbjson_str(w, 2, "tree", buf_str(&text));
    }
    return result;
}

int py_diff(struct call *c, struct py_request *r, struct pbjson *w, struct err *e)
{
    _cleanup_(tree_freep) struct tree *t = NULL;
    int result = py_tree(c, r, true, &t, e);

    return result < 0 ? result : put_flamegraph(w, t);
}

/* Grafana names spans without their trace, so each is queried separately and the trees are merged. */
int py_span_profile(struct call *c, struct py_request *r, struct pbjson *w, struct err *e)
{
    return r->left.spans.n ? py_stacktraces(c, r, w, e) : 0;
}
