/* SPDX-License-Identifier: Apache-2.0 */
/* The call trees of V8's profiles (v8_nodes.h). */
#include "codec/jsonfile/v8_nodes.h"

#include <errno.h>
#include <math.h>

#include "base/mem.h"
#include "model/builder.h"
#include "model/semconv.h"

void v8_nodes_done(struct v8_nodes *n)
{
    mem_free(n->nodes.v);
    mem_free(n->ids);
    mem_free(n->hits);
    map_done(&n->map);
}

uint32_t v8_frame_read(struct json_profile *p, struct v8_nodes *n, struct json *j)
{
    struct json_frame f = {0};
    struct str key;

    json_begin_object(j);
    while (json_next_key(j, &key)) {
        if (str_is(key, "functionName"))
            f.name = json_str(j);
        else if (str_is(key, "url"))
            f.file = json_str(j);
        else if (str_is(key, "lineNumber"))
            f.start_line = json_profile_round(json_double(j) + 1, 1);
        else if (str_is(key, "columnNumber"))
            f.column = json_profile_round(json_double(j) + 1, 1);
        else
            json_skip(j);
    }
    if (str_is(f.name, "(root)"))
        return 0;
    if (!f.name.n)
        f.name = STR("(anonymous)");
    if (!n->frame_type)
        n->frame_type = builder_attr_str(p->b, STR(SEMCONV_FRAME_TYPE), STR("v8js"));
    f.line = f.start_line;
    f.type = n->frame_type;
    return json_profile_location(p, &f);
}

static uint64_t id_of(double v)
{
    return v >= 0 && v < 0x1p53 ? (uint64_t) v : UINT64_MAX;
}

int64_t v8_nodes_find(const struct v8_nodes *n, double id)
{
    uint64_t want = id_of(id);

    for (struct map_pos p = map_find(&n->map, hash64_u64(want)); p.index != MAP_NONE; p = map_next(&n->map, p))
        if (n->ids[p.index] == want)
            return p.index;
    return -1;
}

static int add_node(struct json_profile *p, struct v8_nodes *n, const struct call_node *node, double id, double hits)
{
    size_t limit = MIN(json_profile_limit(p, sizeof *node + 2 * sizeof(double)), (size_t) UINT32_MAX), i = n->nodes.n;
    int r = array_reserve(n->nodes.v, n->nodes.cap, i + 1, limit);

    if (r == 0)
        r = array_reserve(n->ids, n->cap_ids, i + 1, limit);
    if (r == 0)
        r = array_reserve(n->hits, n->cap_hits, i + 1, limit);
    if (r == 0)
        r = map_insert(&n->map, hash64_u64(id_of(id)), (uint32_t) i);
    if (r < 0)
        return r;
    n->nodes.v[i] = *node;
    n->ids[i] = id_of(id);
    n->hits[i] = hits;
    n->nodes.n++;
    return 0;
}

static int read_node(struct json_profile *p, struct v8_nodes *n, struct json *j)
{
    struct call_node node = {0};
    double id = -1, hits = 0, parent = -1;
    struct str key;

    json_begin_object(j);
    while (json_next_key(j, &key)) {
        if (str_is(key, "id"))
            id = json_double(j);
        else if (str_is(key, "callFrame"))
            node.location = v8_frame_read(p, n, j);
        else if (str_is(key, "hitCount"))
            hits = json_double(j);
        else if (str_is(key, "parent"))
            parent = json_double(j);
        else
            json_skip(j);
    }
    node.parent = (uint32_t) (v8_nodes_find(n, parent) + 1);
    return add_node(p, n, &node, id, hits);
}

/* Every node is known now: children get their parent. */
static void read_children(struct v8_nodes *n, struct json *j)
{
    double id = -1;
    struct str key, children = {0};
    struct json list;

    json_begin_object(j);
    while (json_next_key(j, &key)) {
        if (str_is(key, "id"))
            id = json_double(j);
        else if (str_is(key, "children"))
            children = json_raw(j);
        else
            json_skip_unchecked(j);
    }
    if (!children.n || v8_nodes_find(n, id) < 0)
        return;
    json_init(&list, children, j->arena);
    json_begin_array(&list);
    while (json_next_item(&list)) {
        int64_t child = v8_nodes_find(n, json_double(&list));

        if (child >= 0)
            n->nodes.v[child].parent = (uint32_t) (v8_nodes_find(n, id) + 1);
    }
}

int v8_nodes_read(struct json_profile *p, struct v8_nodes *n, struct str array)
{
    struct json j;
    int r = 0;

    json_init(&j, array, &p->arena);
    json_begin_array(&j);
    while (r == 0 && json_next_item(&j))
        r = read_node(p, n, &j);
    if (r < 0 || j.err)
        return r < 0 ? r : j.err;
    json_init(&j, array, &p->arena);
    json_begin_array(&j);
    while (json_next_item(&j))
        read_children(n, &j);
    return j.err;
}

int v8_samples_add(struct json_profile *p, struct v8_nodes *n, const struct json_numbers *samples,
                   const struct json_numbers *deltas, double end_us, const struct sum_row *as)
{
    double at = 0;
    int r = 0;

    for (size_t i = 0; i < samples->n && r == 0; i++) {
        int64_t node = v8_nodes_find(n, samples->v[i]);
        struct sum_row row = *as;
        double us = 0;

        at += json_numbers_at(deltas, i);
        if (i + 1 < samples->n)
            us = json_numbers_at(deltas, i + 1);
        else if (end_us > at)
            us = end_us - at;
        if (node < 0)
            continue;
        row.values[0] = 1;
        row.values[1] = MAX(json_profile_round(us, 1000), 0);
        if (deltas->n)
            row.time = wrap_add(MAX(as->time, 1), json_profile_round(at + MAX(us, 0), 1000));
        r = json_profile_stack(p, &n->nodes, (size_t) node, &row.stack);
        if (r == 0)
            r = sample_sum_add(&p->sum, &row);
    }
    return r;
}

int v8_profile_write(struct json_profile *p, uint32_t profile, bool timed, int64_t duration_ns)
{
    struct value_type types[2] = {{builder_string(p->b, STR("samples")), builder_string(p->b, STR("count"))},
                                  {builder_string(p->b, STR("wall")), builder_string(p->b, STR("nanoseconds"))}};
    struct profile as = {.types = types, .n_types = timed ? 2 : 1, .duration_ns = MAX(duration_ns, 0)};

    return sample_sum_write(&p->sum, profile, &as, 1, p->b);
}
