/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads gprof2dot's JSON, the form in which memray writes whole stacks (`memray transform gprof2dot`):
 *
 *   {"version":0, "costs":[{"description":"Memory","unit":"bytes"}], "functions":[{"name","module"}...],
 *    "events":[{"callchain":[innermost...outermost], "cost":[n]}...]}
 *
 * The first cost is read. memray's is the memory at its peak: inuse_space/bytes.
 */
#include <errno.h>

#include "base/mem.h"
#include "codec/jsonfile/json_profile.h"
#include "model/builder.h"

enum { CHAIN_MAX = 65536 };

struct dot_reader {
    struct json_profile *p;
    uint32_t *locations, *stack;
    size_t n_locations, cap_locations, cap_stack;
};

static int read_functions(struct dot_reader *d, struct json *j)
{
    struct str key;
    int r = 0;

    json_begin_array(j);
    while (r == 0 && json_next_item(j)) {
        struct json_frame f = {0};

        json_begin_object(j);
        while (json_next_key(j, &key)) {
            if (str_is(key, "name"))
                f.name = json_str(j);
            else if (str_is(key, "module"))
                f.file = json_str(j);
            else
                json_skip(j);
        }
        if (!f.name.n)
            f.name = STR("[unknown]");
        r = array_push(d->locations, d->n_locations, d->cap_locations, json_profile_limit(d->p, sizeof *d->locations),
                       json_profile_location(d->p, &f));
    }
    return r;
}

static int read_event(struct dot_reader *d, struct json *j)
{
    struct json_numbers chain = {0}, cost = {0};
    struct sum_row row = {0};
    struct str key;
    size_t n = 0;
    int r = 0;

    json_begin_object(j);
    while (r == 0 && json_next_key(j, &key)) {
        if (str_is(key, "callchain"))
            r = json_numbers_read(d->p, j, &chain);
        else if (str_is(key, "cost"))
            r = json_numbers_read(d->p, j, &cost);
        else
            json_skip(j);
    }
    for (size_t i = 0; i < chain.n && r == 0; i++) {
        int64_t f = json_numbers_index(&chain, i, d->n_locations);

        if (f < 0)
            json_fail(j, "no such function");
        else
            r = array_push(d->stack, n, d->cap_stack, CHAIN_MAX, d->locations[f]);
    }
    row.values[0] = json_profile_round(json_numbers_at(&cost, 0), 1);
    if (r == 0 && !j->err) {
        row.stack = builder_stack(d->p->b, d->stack, (uint32_t) n);
        r = builder_error(d->p->b) ? builder_error(d->p->b) : sample_sum_add(&d->p->sum, &row);
    }
    json_numbers_done(&chain);
    json_numbers_done(&cost);
    return r;
}

/* True if the first cost is in bytes. */
static bool costs_bytes(struct json_profile *p, struct str costs)
{
    struct str key, unit = {0};
    struct json j;

    json_init(&j, costs, &p->arena);
    json_begin_array(&j);
    if (!json_next_item(&j))
        return false;
    json_begin_object(&j);
    while (json_next_key(&j, &key)) {
        if (str_is(key, "unit") && json_peek(&j) == JSON_STRING)
            unit = json_str(&j);
        else
            json_skip(&j);
    }
    return str_is(unit, "bytes");
}

static int read_parts(struct dot_reader *d, struct str functions, struct str events, struct err *e)
{
    struct json j;
    int r = 0;

    json_init(&j, functions, &d->p->arena);
    r = read_functions(d, &j);
    if (r == 0 && !j.err) {
        json_init(&j, events, &d->p->arena);
        json_begin_array(&j);
        while (r == 0 && json_next_item(&j))
            r = read_event(d, &j);
    }
    return r == 0 && j.err ? json_profile_error(d->p, &j, e) : r;
}

int gprof2dot_read(struct json_profile *p, struct err *e)
{
    struct str key, functions = {0}, events = {0}, costs = {0};
    struct dot_reader d = {.p = p};
    struct value_type type;
    struct json j;
    bool bytes;
    int r;

    json_init(&j, p->text, &p->arena);
    json_begin_object(&j);
    while (json_next_key(&j, &key)) {
        if (str_is(key, "functions"))
            functions = json_raw(&j);
        else if (str_is(key, "events"))
            events = json_raw(&j);
        else if (str_is(key, "costs"))
            costs = json_raw(&j);
        else
            json_skip(&j);
    }
    if (json_end(&j) < 0)
        return json_profile_error(p, &j, e);
    if (!functions.n || !events.n)
        return err_set(e, -EINVAL, "%s: 'functions' and 'events' are required", p->format);
    r = read_parts(&d, functions, events, e);
    mem_free(d.locations);
    mem_free(d.stack);
    if (r < 0)
        return r;
    if (!p->sum.n)
        return err_set(e, -ENODATA, "%s: no samples", p->format);
    bytes = costs_bytes(p, costs);
    type = (struct value_type){builder_string(p->b, bytes ? STR("inuse_space") : STR("samples")),
                               builder_string(p->b, bytes ? STR("bytes") : STR("count"))};
    return sample_sum_write(&p->sum, 0, &(struct profile){.types = &type, .n_types = 1}, 1, p->b);
}
