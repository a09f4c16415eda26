/* SPDX-License-Identifier: Apache-2.0 */
/* What the decoders of JSON formats share (json_profile.h). */
#include "codec/jsonfile/json_profile.h"

#include <errno.h>
#include <math.h>

#include "base/mem.h"
#include "model/builder.h"

enum { FRAMES_MAX = 65536 };

int json_profile_error(const struct json_profile *p, const struct json *j, struct err *e)
{
    int r = json_error(j, e);

    return err_prefix(e, r, "%s: ", p->format);
}

size_t json_profile_limit(const struct json_profile *p, size_t size)
{
    return p->memory ? p->memory / size + 1 : UINT32_MAX;
}

uint32_t json_profile_location(struct json_profile *p, const struct json_frame *f)
{
    struct line line = {.line = MAX(f->line, 0), .column = MAX(f->column, 0)};

    if (f->name.n)
        line.function = builder_function(p->b, &(struct function){.name = builder_string(p->b, f->name),
                                                                  .filename = builder_string(p->b, f->file),
                                                                  .start_line = MAX(f->start_line, 0)});
    return builder_location(p->b, &(struct builder_location){.mapping = f->mapping,
                                                             .address = f->address,
                                                             .lines = &line,
                                                             .n_lines = f->name.n ? 1 : 0,
                                                             .attrs = &f->type,
                                                             .n_attrs = f->type ? 1 : 0});
}

int json_profile_stack(struct json_profile *p, struct call_nodes *nodes, size_t node, uint32_t *ret)
{
    struct call_node *leaf = &nodes->v[node], *at = leaf;
    size_t n = 0, steps = 0;
    int r;

    while (!leaf->stack) {
        if (at->location) {
            r = array_push(p->path, n, p->cap_path, FRAMES_MAX, at->location);
            if (r < 0)
                return r;
        }
        if (++steps > FRAMES_MAX)
            return -EINVAL;
        if (!at->parent) {
            leaf->stack = 1 + builder_stack(p->b, p->path, (uint32_t) n);
            break;
        }
        at = &nodes->v[at->parent - 1];
    }
    *ret = leaf->stack - 1;
    return builder_error(p->b);
}

int json_numbers_read(struct json_profile *p, struct json *j, struct json_numbers *ret)
{
    size_t limit = json_profile_limit(p, sizeof *ret->v);
    int r = 0;

    if (json_peek(j) != JSON_ARRAY) {
        json_skip(j);
        return 0;
    }
    json_begin_array(j);
    while (r == 0 && json_next_item(j)) {
        double v = NAN;

        if (json_peek(j) == JSON_NUMBER)
            v = json_double(j);
        else
            json_skip(j);
        r = array_push(ret->v, ret->n, ret->cap, limit, v);
    }
    return r;
}

void json_numbers_done(struct json_numbers *n)
{
    mem_free(n->v);
    *n = (struct json_numbers){0};
}

int64_t json_numbers_index(const struct json_numbers *n, size_t i, size_t limit)
{
    double v = i < n->n ? n->v[i] : NAN;

    return v >= 0 && v < (double) limit ? (int64_t) v : -1;
}

double json_numbers_at(const struct json_numbers *n, size_t i)
{
    return i < n->n && !isnan(n->v[i]) ? n->v[i] : 0;
}

int64_t json_profile_round(double v, double scale)
{
    v *= scale;
    if (isnan(v))
        return 0;
    return v >= 0x1p62 ? INT64_C(1) << 62 : v <= -0x1p62 ? -(INT64_C(1) << 62) : (int64_t) llround(v);
}

int json_texts_read(struct json_profile *p, struct json *j, struct json_texts *ret)
{
    size_t limit = json_profile_limit(p, sizeof *ret->v);
    int r = 0;

    if (json_peek(j) != JSON_ARRAY) {
        json_skip(j);
        return 0;
    }
    json_begin_array(j);
    while (r == 0 && json_next_item(j)) {
        struct str s = {0};

        if (json_peek(j) == JSON_STRING)
            s = json_str(j);
        else
            json_skip(j);
        r = array_push(ret->v, ret->n, ret->cap, limit, s);
    }
    return r;
}
