/* SPDX-License-Identifier: Apache-2.0 */
/* Detects and decodes profiles in the JSON formats of other tools (json_file.h). */
#include "codec/jsonfile/json_file.h"

#include <errno.h>

#include "base/mem.h"
#include "codec/jsonfile/json_profile.h"
#include "model/builder.h"

static const struct {
    const char *name;
    int (*read)(struct json_profile *p, struct err *e);
} forms[] = {
    [JSON_FILE_CPUPROFILE] = {".cpuprofile", cpuprofile_read},
    [JSON_FILE_HEAPPROFILE] = {".heapprofile", heapprofile_read},
    [JSON_FILE_CHROME_TRACE] = {"Chrome trace", chrome_trace_read},
    [JSON_FILE_SPEEDSCOPE] = {"speedscope", speedscope_read},
    [JSON_FILE_FIREFOX] = {"Firefox profile", firefox_read},
    [JSON_FILE_GPROF2DOT] = {"gprof2dot JSON", gprof2dot_read},
};

/* The format that a key of the outermost object identifies. */
static enum json_file_form form_of_key(struct str key)
{
    static const struct {
        const char *key;
        enum json_file_form form;
    } keys[] = {
        {"nodes", JSON_FILE_CPUPROFILE},         {"timeDeltas", JSON_FILE_CPUPROFILE}, {"head", JSON_FILE_HEAPPROFILE},
        {"traceEvents", JSON_FILE_CHROME_TRACE}, {"$schema", JSON_FILE_SPEEDSCOPE},    {"shared", JSON_FILE_SPEEDSCOPE},
        {"profiles", JSON_FILE_SPEEDSCOPE},      {"libs", JSON_FILE_FIREFOX},          {"threads", JSON_FILE_FIREFOX},
        {"functions", JSON_FILE_GPROF2DOT},      {"costs", JSON_FILE_GPROF2DOT},
    };

    for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
        if (str_is(key, keys[i].key))
            return keys[i].form;
    return JSON_FILE_NONE;
}

/* An array of trace events: its first element has a phase. */
static bool looks_like_events(struct json *j)
{
    struct str key;

    json_begin_array(j);
    if (!json_next_item(j) || json_peek(j) != JSON_OBJECT)
        return false;
    json_begin_object(j);
    while (json_next_key(j, &key)) {
        if (str_is(key, "ph"))
            return true;
        json_skip_unchecked(j);
    }
    return false;
}

enum json_file_form json_file_detect(struct str text)
{
    enum json_file_form form = JSON_FILE_NONE;
    bool meta = false;
    struct arena arena;
    struct json j;
    struct str key;

    arena_init(&arena, 1 << 20);
    json_init(&j, text, &arena);
    if (json_peek(&j) == JSON_ARRAY && looks_like_events(&j)) {
        form = JSON_FILE_CHROME_TRACE;
    } else if (json_peek(&j) == JSON_OBJECT) {
        json_begin_object(&j);
        while (form == JSON_FILE_NONE && json_next_key(&j, &key)) {
            form = form_of_key(key);
            if (str_is(key, "meta"))
                meta = true;
            if (meta && form == JSON_FILE_SPEEDSCOPE && str_is(key, "shared"))
                form = JSON_FILE_FIREFOX; /* its newer versions have this key, too */
            json_skip_unchecked(&j);
        }
    }
    arena_done(&arena);
    return form;
}

int json_file_decode(struct str text, enum json_file_form form, size_t memory, bool times, struct batch **ret,
                     struct err *e)
{
    struct json_profile p = {
        .text = text, .memory = memory, .sum = {.limit = sample_sum_limit(memory), .times = times}};
    int r = builder_new(&(struct builder_limits){.memory = memory}, &p.b);

    if (form == JSON_FILE_NONE)
        r = err_set(e, -EINVAL, "not a JSON profile");
    arena_init(&p.arena, memory);
    if (r == 0) {
        p.format = forms[form].name;
        builder_resource(p.b);
        builder_scope(p.b, (struct str){0}, (struct str){0});
        r = forms[form].read(&p, e);
        if (r < 0 && e && !e->code)
            err_set(e, r, "%s: %m", p.format);
    }
    if (r == 0)
        r = builder_finish(p.b, ret, e);
    builder_free(p.b);
    sample_sum_done(&p.sum);
    mem_free(p.path);
    arena_done(&p.arena);
    return r;
}
