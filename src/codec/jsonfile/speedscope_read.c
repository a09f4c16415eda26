/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads speedscope's JSON (https://www.speedscope.app/file-format-schema.json):
 *
 *   {"shared":{"frames":[{"name","file","line","col"}...]}, "exporter":..., "profiles":[
 *     {"type":"sampled", "name", "unit", "samples":[[root...leaf]...], "weights":[...]},
 *     {"type":"evented", "name", "unit", "events":[{"type":"O" or "C", "frame", "at"}...]}]}
 *
 * Profiles of one unit become one profile, whose samples have the speedscope profile's name as thread.name: tools write
 * one for each thread. Times become wall/nanoseconds, bytes inuse_space/bytes, and the rest samples/count. Files that
 * wick wrote have a profile for each sample type, and its name.
 */
#include <errno.h>

#include "base/mem.h"
#include "codec/jsonfile/json_profile.h"
#include "model/builder.h"
#include "model/semconv.h"

enum { UNITS_MAX = 64, STACK_MAX = 65536 };

struct speed_unit {
    const char *name;
    double scale;
    struct str type, unit;
};

static const struct speed_unit units[] = {
    {"nanoseconds", 1, {"wall", 4}, {"nanoseconds", 11}},    {"microseconds", 1e3, {"wall", 4}, {"nanoseconds", 11}},
    {"milliseconds", 1e6, {"wall", 4}, {"nanoseconds", 11}}, {"seconds", 1e9, {"wall", 4}, {"nanoseconds", 11}},
    {"bytes", 1, {"inuse_space", 11}, {"bytes", 5}},         {"none", 1, {"samples", 7}, {"count", 5}},
};

struct speed_reader {
    struct json_profile *p;
    uint32_t *locations; /* of frames */
    size_t n_locations, cap_locations;
    bool ours; /* written by wick */
    struct value_type types[UNITS_MAX];
    uint32_t n_types;
    /* the profile that is read */
    struct sum_row row;
    double scale, at; /* at: the end of the last sample, in the profile's unit */
    bool is_time;
    uint32_t *stack;
    size_t cap_stack;
};

static int read_frames(struct speed_reader *s, struct json *j)
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
            else if (str_is(key, "file") && json_peek(j) == JSON_STRING)
                f.file = json_str(j);
            else if (str_is(key, "line"))
                f.line = json_profile_round(json_double(j), 1);
            else if (str_is(key, "col"))
                f.column = json_profile_round(json_double(j), 1);
            else
                json_skip(j);
        }
        if (!f.name.n)
            f.name = STR("[unknown]");
        r = array_push(s->locations, s->n_locations, s->cap_locations, json_profile_limit(s->p, sizeof *s->locations),
                       json_profile_location(s->p, &f));
    }
    return r;
}

static int add_sample(struct speed_reader *s, size_t n, double weight)
{
    struct sum_row row = s->row;

    for (size_t i = 0; i < n / 2; i++) { /* the builder wants the leaf first */
        uint32_t t = s->stack[i];

        s->stack[i] = s->stack[n - 1 - i];
        s->stack[n - 1 - i] = t;
    }
    row.stack = builder_stack(s->p->b, s->stack, (uint32_t) n);
    row.values[0] = json_profile_round(weight, s->scale);
    row.time = s->is_time ? MAX(json_profile_round(s->at, s->scale), 1) : 0;
    return builder_error(s->p->b) ? builder_error(s->p->b) : sample_sum_add(&s->p->sum, &row);
}

static int push_frame(struct speed_reader *s, struct json *j, size_t *n, double frame)
{
    if (!(frame >= 0 && frame < (double) s->n_locations)) {
        json_fail(j, "no such frame");
        return 0;
    }
    return array_push(s->stack, *n, s->cap_stack, STACK_MAX, s->locations[(size_t) frame]);
}

static int read_sampled(struct speed_reader *s, struct str samples, struct str weights, struct json *err)
{
    struct json j, w;
    int r = 0;

    json_init(&j, samples, &s->p->arena);
    json_init(&w, weights.n ? weights : STR("[]"), &s->p->arena);
    json_begin_array(&j);
    json_begin_array(&w);
    while (r == 0 && json_next_item(&j)) {
        double weight = json_next_item(&w) ? json_double(&w) : weights.n ? 0 : 1;
        size_t n = 0;

        json_begin_array(&j);
        while (r == 0 && json_next_item(&j))
            r = push_frame(s, &j, &n, json_double(&j));
        s->at += weight;
        if (r == 0 && !j.err)
            r = add_sample(s, n, weight);
    }
    if (j.err || w.err)
        *err = j.err ? j : w;
    return r;
}

struct speed_event {
    double frame, at;
    bool open;
};

static struct speed_event read_event(struct json *j)
{
    struct speed_event ev = {.frame = -1};
    struct str key;

    json_begin_object(j);
    while (json_next_key(j, &key)) {
        if (str_is(key, "type"))
            ev.open = str_is(json_str(j), "O");
        else if (str_is(key, "frame"))
            ev.frame = json_double(j);
        else if (str_is(key, "at"))
            ev.at = json_double(j);
        else
            json_skip(j);
    }
    return ev;
}

/* The time between two events belongs to the stack that is open between them. */
static int read_evented(struct speed_reader *s, struct str events, struct json *err)
{
    _cleanup_(mem_freep) uint32_t *open = NULL;
    size_t n = 0, cap = 0;
    struct json j;
    double last = 0;
    int r = 0;

    json_init(&j, events, &s->p->arena);
    json_begin_array(&j);
    while (r == 0 && json_next_item(&j)) {
        struct speed_event ev = read_event(&j);

        if (j.err)
            break;
        if (n && ev.at > last) {
            r = array_reserve(s->stack, s->cap_stack, n, STACK_MAX);
            if (r == 0) {
                memcpy(s->stack, open, n * sizeof *open);
                s->at = ev.at;
                r = add_sample(s, n, ev.at - last);
            }
        }
        last = ev.at;
        if (ev.open && !(ev.frame >= 0 && ev.frame < (double) s->n_locations))
            json_fail(&j, "no such frame");
        else if (ev.open && r == 0)
            r = array_push(open, n, cap, STACK_MAX, s->locations[(size_t) ev.frame]);
        else if (n)
            n--;
    }
    if (j.err)
        *err = j;
    return r;
}

struct speed_profile {
    struct str type, name, unit, samples, weights, events;
    double start;
};

/* The number of the profile with this type, which is added if it is new. */
static int choose_type(struct speed_reader *s, const struct speed_profile *x, struct err *e)
{
    const struct speed_unit *u = &units[ARRAY_SIZE(units) - 1];
    struct builder *b = s->p->b;
    struct value_type t;

    for (size_t i = 0; i < ARRAY_SIZE(units); i++)
        if (str_is(x->unit, units[i].name))
            u = &units[i];
    t = (struct value_type){builder_string(b, s->ours && x->name.n ? x->name : u->type), builder_string(b, u->unit)};
    s->scale = u->scale;
    s->at = x->start;
    s->is_time = !s->ours && str_is(u->unit, "nanoseconds"); /* those that wick writes are not in the order of time */
    s->row = (struct sum_row){.profile = s->n_types};
    for (uint32_t i = 0; i < s->n_types; i++)
        if (s->types[i].type == t.type && s->types[i].unit == t.unit)
            s->row.profile = i;
    if (s->row.profile == s->n_types) {
        if (s->n_types == UNITS_MAX)
            return err_set(e, -E2BIG, "%s: more than %d sample types", s->p->format, UNITS_MAX);
        s->types[s->n_types++] = t;
    }
    if (!s->ours && x->name.n) {
        uint32_t attr = builder_attr_str(b, STR(SEMCONV_THREAD_NAME), x->name);

        s->row.attrs = builder_attrs(b, &attr, 1);
    }
    return 0;
}

static int read_profile(struct speed_reader *s, struct json *j, struct err *e)
{
    struct speed_profile x = {0};
    struct json bad = {0};
    struct str key;
    int r;

    json_begin_object(j);
    while (json_next_key(j, &key)) {
        if (str_is(key, "type"))
            x.type = json_str(j);
        else if (str_is(key, "name"))
            x.name = json_str(j);
        else if (str_is(key, "unit"))
            x.unit = json_str(j);
        else if (str_is(key, "samples"))
            x.samples = json_raw(j);
        else if (str_is(key, "weights"))
            x.weights = json_raw(j);
        else if (str_is(key, "events"))
            x.events = json_raw(j);
        else if (str_is(key, "startValue") && json_peek(j) == JSON_NUMBER)
            x.start = json_double(j);
        else
            json_skip(j);
    }
    if (j->err)
        return 0;
    r = choose_type(s, &x, e);
    if (r == 0 && str_is(x.type, "evented"))
        r = read_evented(s, x.events.n ? x.events : STR("[]"), &bad);
    else if (r == 0)
        r = read_sampled(s, x.samples.n ? x.samples : STR("[]"), x.weights, &bad);
    return r == 0 && bad.err ? json_profile_error(s->p, &bad, e) : r;
}

static int read_profiles(struct speed_reader *s, struct str profiles, struct err *e)
{
    struct json j;
    int r = 0;

    json_init(&j, profiles, &s->p->arena);
    json_begin_array(&j);
    while (r == 0 && json_next_item(&j))
        r = read_profile(s, &j, e);
    if (r < 0 || j.err)
        return r < 0 ? r : json_profile_error(s->p, &j, e);
    if (!s->p->sum.n)
        return err_set(e, -ENODATA, "%s: no samples", s->p->format);
    for (uint32_t i = 0; r == 0 && i < s->n_types; i++)
        r = sample_sum_write(&s->p->sum, i, &(struct profile){.types = &s->types[i], .n_types = 1}, 1, s->p->b);
    return r;
}

static int read_all(struct speed_reader *s, struct err *e)
{
    struct str key, shared = {0}, profiles = {0}, exporter = {0};
    struct json j;
    int r = 0;

    json_init(&j, s->p->text, &s->p->arena);
    json_begin_object(&j);
    while (json_next_key(&j, &key)) {
        if (str_is(key, "shared"))
            shared = json_raw(&j);
        else if (str_is(key, "profiles"))
            profiles = json_raw(&j);
        else if (str_is(key, "exporter") && json_peek(&j) == JSON_STRING)
            exporter = json_str(&j);
        else
            json_skip(&j);
    }
    if (json_end(&j) < 0)
        return json_profile_error(s->p, &j, e);
    if (!shared.n || !profiles.n)
        return err_set(e, -EINVAL, "%s: 'shared' and 'profiles' are required", s->p->format);
    s->ours = str_starts(exporter, STR("wick "));
    json_init(&j, shared, &s->p->arena);
    json_begin_object(&j);
    while (r == 0 && json_next_key(&j, &key)) {
        if (str_is(key, "frames"))
            r = read_frames(s, &j);
        else
            json_skip(&j);
    }
    if (r == 0 && j.err)
        r = json_profile_error(s->p, &j, e);
    return r < 0 ? r : read_profiles(s, profiles, e);
}

int speedscope_read(struct json_profile *p, struct err *e)
{
    struct speed_reader s = {.p = p};
    int r = read_all(&s, e);

    mem_free(s.locations);
    mem_free(s.stack);
    return r;
}
