/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OTLP codecs from the inside: round trips of built batches, hand-made wire bytes that no ordinary encoder writes,
 * errors with their places, memory. tests/integration/test_otlp.py compares with protobuf's own library.
 */
#include "codec/otlp.h"

#include "base/wire.h"
#include "model/batch.h"
#include "model/builder.h"
#include "batch_validate.h"
#include "tap.h"

/* A small batch with something in every corner. Returns NULL without memory. */
static struct batch *make_batch(void)
{
    _cleanup_(builder_freep) struct builder *b = NULL;
    struct value list[2] = {{.kind = VALUE_INT, .integer = -5}, {.kind = VALUE_STR, .n = 1, .str = "x"}};
    struct kv pairs[1] = {{.key = STR("inner"), .value = {.kind = VALUE_DOUBLE, .number = 2.5}}};
    struct value array = {.kind = VALUE_ARRAY, .n = 2, .array = list}, map = {.kind = VALUE_MAP, .n = 1, .map = pairs},
                 bytes = {.kind = VALUE_BYTES, .n = 2, .str = "\x00\xff"};
    struct link link = {.trace_id = {1, 2, 3}, .span_id = {9}};
    struct profile *p;
    struct batch *ret;
    uint32_t attrs[2], locs[2], m, f, l, s;
    struct run set;

    if (builder_new(NULL, &b) < 0)
        return NULL;
    attrs[0] = builder_attr_str(b, STR("thread.name"), STR("worker"));
    attrs[1] = builder_attr_int(b, STR("bytes"), 4096, STR("bytes"));
    set = builder_attrs(b, attrs, 2);
    m = builder_mapping(
        b, &(struct mapping){.start = 0x400000, .limit = 0x500000, .filename = builder_string(b, STR("/bin/app"))},
        attrs, 1);
    f = builder_function(b, &(struct function){.name = builder_string(b, STR("main")),
                                               .system_name = builder_string(b, STR("_main")),
                                               .start_line = 7});
    locs[0] = builder_location(b, &(struct builder_location){.mapping = m,
                                                             .address = 0x401000,
                                                             .lines = (struct line[]){{f, 10, 3}, {f, 12, 0}},
                                                             .n_lines = 2,
                                                             .attrs = attrs,
                                                             .n_attrs = 1});
    locs[1] = builder_location(b, &(struct builder_location){.mapping = m, .address = UINT64_MAX - 1});
    s = builder_stack(b, locs, 2);
    l = builder_link(b, &link);
    builder_resource(b);
    builder_resource_attr_str(b, STR("service.name"), STR("checkout"));
    builder_resource_attr(b, STR("list"), &array);
    builder_resource_attr(b, STR("map"), &map);
    builder_resource_attr(b, STR("bytes"), &bytes);
    builder_resource_attr(b, STR("empty"), &(struct value){.kind = VALUE_EMPTY});
    builder_scope(b, STR("scope"), STR("1.0"));
    builder_scope_attr(b, STR("yes"), &(struct value){.kind = VALUE_BOOL, .boolean = true});
    p = builder_profile(b, &(struct value_type){builder_string(b, STR("cpu")), builder_string(b, STR("nanoseconds"))},
                        1);
    if (p) {
        p->time_ns = 1767225600000000000;
        p->duration_ns = 10;
        p->period = -1;
        p->id[3] = 4;
        p->attrs = set;
        p->payload_format = STR("pprof");
        p->payload = STR("payload");
    }
    builder_sample(b, &(struct builder_sample){.stack = s,
                                               .link = l,
                                               .attrs = set,
                                               .values = (int64_t[]){-3, 1 << 20},
                                               .n_values = 2,
                                               .timestamps = (uint64_t[]){5, UINT64_MAX},
                                               .n_timestamps = 2});
    builder_sample(b, &(struct builder_sample){.stack = s, .timestamps = (uint64_t[]){77}, .n_timestamps = 1});
    builder_sample(b, &(struct builder_sample){.values = (int64_t[]){0}, .n_values = 1});
    return builder_finish(b, &ret, NULL) < 0 ? NULL : ret;
}

static void test_round_trip(void)
{
    struct otlp_encode_options refs = {.references = true};

    for (int with_refs = 0; with_refs < 2; with_refs++) {
        _cleanup_(batch_unrefp) struct batch *b = make_batch(), *back = NULL;
        _cleanup_(buf_done) struct buf first = BUF_INIT, second = BUF_INIT, in = BUF_INIT;
        struct err e = {0};

        eq_int(otlp_encode(b, NULL, &first, &e), 0);
        eq_int(otlp_encode(b, with_refs ? &refs : NULL, &in, &e), 0);
        eq_int(otlp_decode(&in, NULL, &back, &e), 0);
        eq_str(str_from(e.message), STR(""));
        if (!back)
            return;
        ok(in.p == NULL && back->input != NULL);
        eq_int(batch_validate(back, &e), 0);
        eq_int(back->n_samples, 3);
        eq_int(batch_sample_value(back, &back->profiles[0], &back->samples[1], 0), 1);
        back->dict.n_strings = b->dict.n_strings; /* references add strings after the others */
        eq_int(otlp_encode(back, NULL, &second, &e), 0);
        eq_str(buf_str(&second), buf_str(&first));
    }
}

/* A profile of three types becomes three of one group, with their default. */
static void test_groups(void)
{
    _cleanup_(builder_freep) struct builder *b = NULL;
    _cleanup_(batch_unrefp) struct batch *batch = NULL, *back = NULL;
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    struct value_type types[3];
    struct profile *p;
    struct err e = {0};

    eq_int(builder_new(NULL, &b), 0);
    builder_resource(b);
    builder_scope(b, STR(""), STR(""));
    for (int i = 0; i < 3; i++)
        types[i] = (struct value_type){builder_string(b, (struct str[]){STR("a"), STR("b"), STR("c")}[i]), 0};
    for (int i = 0; i < 2; i++) { /* twice the same: two groups */
        p = builder_profile(b, types, 3);
        p->default_type = 2;
        p->id[0] = 1;
        builder_sample(b, &(struct builder_sample){.values = (int64_t[]){1, 2, 3}, .n_values = 3});
    }
    eq_int(builder_finish(b, &batch, &e), 0);
    eq_int(otlp_encode(batch, NULL, &out, &e), 0);
    eq_int(otlp_decode(&out, NULL, &back, &e), 0);
    if (!back)
        return;
    eq_int(back->n_profiles, 6);
    for (uint32_t i = 0; i < 6; i++) {
        eq_int(back->profiles[i].group, 1 + i / 3);
        eq_int(back->profiles[i].default_type, i % 3 == 1);
        eq_int(batch_sample_value(back, &back->profiles[i], &back->samples[i], 0), 1 + i % 3);
        ok(memcmp(back->profiles[i].id, back->profiles[(i + 1) % 3].id, 16) != 0 || i >= 3);
    }
}

/* --- bytes that ordinary encoders do not write --- */

/* A request of one resource, scope and profile around `profile`, with `dictionary` before or after it. */
static void wrap(struct buf *out, const struct buf *profile, const struct buf *dictionary, bool dictionary_first)
{
    size_t resource, scope;

    if (dictionary_first)
        wire_put_bytes_always(out, 2, dictionary->p, dictionary->n);
    resource = wire_begin(out, 1, 0);
    scope = wire_begin(out, 2, 0);
    wire_put_bytes_always(out, 2, profile->p, profile->n);
    wire_end(out, scope);
    wire_end(out, resource);
    if (!dictionary_first)
        wire_put_bytes_always(out, 2, dictionary->p, dictionary->n);
}

static void put_strings(struct buf *dictionary, const char *const *v)
{
    for (; *v; v++)
        wire_put_bytes_always(dictionary, 5, *v, strlen(*v));
}

static void test_unpacked_and_split(void)
{
    _cleanup_(buf_done) struct buf dict = BUF_INIT, profile = BUF_INIT, out = BUF_INIT;
    _cleanup_(batch_unrefp) struct batch *b = NULL;
    struct err e = {0};
    size_t m;

    for (int i = 0; i < 3; i++) {
        wire_put_bytes_always(&dict, 2, i ? "\x10\x05" : "", i ? 2 : 0);
        wire_put_bytes_always(&dict, 6, i ? "\x08\x01" : "", i ? 2 : 0);
    }
    put_strings(&dict, (const char *const[]){"", "k", NULL});
    wire_put_bytes_always(&dict, 7, "", 0);
    m = wire_begin(&dict, 7, 0); /* 1, then [2, 1] packed, then 2 */
    wire_put_uint(&dict, 1, 1);
    wire_put_packed_u32(&dict, 1, (uint32_t[]){2, 1}, 2);
    wire_put_uint(&dict, 1, 2);
    wire_end(&dict, m);
    wire_put_uint(&profile, 11, 1); /* the profile's attributes around its samples */
    m = wire_begin(&profile, 2, 0);
    wire_put_uint(&profile, 4, 7);
    wire_put_uint(&profile, 2, 2);
    wire_put_uint(&profile, 4, 8);
    wire_put_uint(&profile, 1, 1);
    wire_put_uint(&profile, 2, 1);
    wire_put_fixed64(&profile, 5, 100);
    wire_put_bytes(&profile, 5, "\xc8\0\0\0\0\0\0", 8); /* packed: 200 */
    wire_end(&profile, m);
    wire_put_packed_u32(&profile, 11, (uint32_t[]){2}, 1);
    wrap(&out, &profile, &dict, false);
    eq_int(otlp_decode(&out, NULL, &b, &e), 0);
    eq_str(str_from(e.message), STR(""));
    if (!b)
        return;
    eq_int(batch_validate(b, &e), 0);
    eq_int(b->dict.stacks[1].n, 4);
    eq_int(b->dict.indices[b->dict.stacks[1].off + 1], 2);
    eq_int(b->samples[0].values.n, 2);
    eq_int(b->values[1], 8);
    eq_int(b->samples[0].attrs.n, 2);
    eq_int(b->timestamps[1], 200);
    eq_int(b->profiles[0].attrs.n, 2);
    eq_int(b->dict.indices[b->profiles[0].attrs.off + 1], 2);
}

/* Fields of no meaning here, among them a group, are passed over. */
static void test_unknown_fields(void)
{
    _cleanup_(buf_done) struct buf dict = BUF_INIT, profile = BUF_INIT, out = BUF_INIT;
    _cleanup_(batch_unrefp) struct batch *b = NULL;
    struct err e = {0};

    buf_put(&profile, "\x9b\x06\x08\x01\xa3\x06\x0a\x01x\xa4\x06\x9c\x06", 13); /* group 99 holding group 100 */
    wire_put_bytes(&profile, 2000, "abc", 3);
    wire_put_uint(&profile, 6, 42);
    wrap(&out, &profile, &dict, true);
    wire_put_uint(&out, 77, 1);
    eq_int(otlp_decode(&out, NULL, &b, &e), 0);
    ok(b && b->profiles[0].period == 42);
}

/* The Collector's pprof receiver numbers from 0 without a zero value; see otlp.h. */
static void test_tables_without_zero(void)
{
    _cleanup_(buf_done) struct buf dict = BUF_INIT, profile = BUF_INIT, out = BUF_INIT;
    _cleanup_(batch_unrefp) struct batch *b = NULL;
    struct err e = {0};

    put_strings(&dict, (const char *const[]){"build_id", "main", "bin", NULL});
    wire_put_bytes(&dict, 1, "\x08\x10\x20\x02\x2a\x01\x00", 7); /* start 16, file 2, attributes [0] */
    wire_put_bytes(&dict, 2, "\x10\x11\x1a\x02\x10\x05", 6);     /* address 17, line 5 of function 0 */
    wire_put_bytes(&dict, 3, "\x08\x01", 2);                     /* name 1 */
    wire_put_bytes(&dict, 6, "\x12\x04\x0a\x02id", 6);           /* key 0 */
    wire_put_bytes(&dict, 7, "\x0a\x01\x00", 3);                 /* locations [0] */
    wire_put_bytes(&profile, 2, "\x22\x01\x09", 3);              /* stack 0, value 9 */
    wrap(&out, &profile, &dict, false);
    eq_int(otlp_decode(&out, NULL, &b, &e), 0);
    eq_str(str_from(e.message), STR(""));
    if (!b)
        return;
    eq_int(batch_validate(b, &e), 0);
    eq_int(b->samples[0].stack, 1);
    eq_int(b->samples[0].link, 0);
    eq_int(b->dict.indices[b->dict.stacks[1].off], 1);
    eq_int(b->dict.locations[1].mapping, 1);
    eq_int(b->dict.lines[b->dict.locations[1].lines.off].function, 1);
    eq_str(batch_string(b, b->dict.functions[1].name), STR("main"));
    eq_int(b->dict.functions[1].filename, 0);
    eq_str(batch_string(b, b->dict.mappings[1].filename), STR("bin"));
    eq_str(value_str(&batch_attr(b, b->dict.mappings[1].attrs, STR("build_id"))->value), STR("id"));
}

/* --- refusals --- */

static void refuse(const char *bytes, size_t n, int code, const char *words)
{
    struct batch *b = NULL;
    struct err e = {0};
    int r = otlp_decode_borrowed(bytes, n, NULL, &b, &e);

    eq_int(r, code);
    if (!strstr(e.message, words))
        tap_fail("'%s' does not say '%s'", e.message, words);
    batch_unref(b);
}

static void test_errors_have_places(void)
{
    _cleanup_(buf_done) struct buf dict = BUF_INIT, profile = BUF_INIT, out = BUF_INIT;

    refuse("\x0a", 1, -EINVAL, "byte 0: field 1 is cut short");
    refuse("\x0a\x05", 2, -EINVAL, "field 1 is 5 bytes long, with 0 left");
    refuse("\x00\x00", 2, -EINVAL, "0 is not a valid field tag");
    refuse("\x12\x04\x12\x02\x08\x80", 6, -EINVAL, "byte 4, dictionary.location_table[0]: field 1 is cut short");
    refuse("\x12\x04\x12\x02\x08\x03", 6, -EINVAL,
           "byte 4, dictionary.location_table[0].mapping_index: 3 is outside mapping_table, which has 1 entries");
    refuse("\x12\x05\x3a\x03\x0a\x01\x02", 7, -EINVAL, "byte 6, dictionary.stack_table[0].location_indices[0]: 2 is");
    refuse("\x12\x05\x22\x03\x0a\x01\x02", 7, -EINVAL, "link_table[0].trace_id: it has 1 bytes, not 16");
    wire_put_bytes(&profile, 2, "\x22\x01\x01", 3);
    wire_put_bytes(&profile, 2, "\x08\x05\x22\x01\x01", 5);
    wrap(&out, &profile, &dict, false);
    refuse(out.p, out.n, -EINVAL, "resource_profiles[0].scope_profiles[0].profiles[0].samples[1].stack_index: 5 is");
    buf_reset(&out);
    buf_reset(&profile);
    wire_put_bytes(&profile, 2, "\x22\x02\x01\x02\x2a\x08\x01\x01\x01\x01\x01\x01\x01\x01", 14);
    wrap(&out, &profile, &dict, false);
    refuse(out.p, out.n, -EINVAL, "samples[0]: it has 2 values and 1 timestamps");
}

/* Every prefix and every single wrong byte of a good request ends in an answer. */
static void test_mutations(void)
{
    _cleanup_(batch_unrefp) struct batch *b = make_batch();
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    struct err e;

    eq_int(otlp_encode(b, NULL, &out, &e), 0);
    for (size_t i = 0; i < out.n; i++) {
        struct batch *got = NULL;

        if (otlp_decode_borrowed(out.p, i, NULL, &got, &e) == 0)
            eq_int(batch_validate(got, &e), 0);
        batch_unref(got);
        for (int bit = 0; bit < 8; bit++) {
            got = NULL;
            out.p[i] ^= (char) (1 << bit);
            if (otlp_decode_borrowed(out.p, out.n, NULL, &got, &e) == 0)
                eq_int(batch_validate(got, &e), 0);
            batch_unref(got);
            out.p[i] ^= (char) (1 << bit);
        }
    }
}

/* An attribute of lists in lists in lists. */
static void put_deep(struct buf *out, int depth)
{
    _cleanup_(buf_done) struct buf value = BUF_INIT, array = BUF_INIT, entry = BUF_INIT;

    for (int i = 0; i < depth; i++) {
        buf_reset(&array);
        wire_put_bytes_always(&array, 1, value.p, value.n);
        buf_reset(&value);
        wire_put_bytes_always(&value, 5, array.p, array.n);
    }
    wire_put_bytes_always(&entry, 2, value.p, value.n);
    wire_put_bytes_always(out, 6, entry.p, entry.n);
}

static void test_depth(void)
{
    for (int depth = 30; depth < 40; depth += 5) {
        _cleanup_(buf_done) struct buf dict = BUF_INIT, out = BUF_INIT;
        struct batch *b = NULL;

        put_deep(&dict, depth);
        wire_put_bytes_always(&out, 2, dict.p, dict.n);
        if (depth > 32)
            refuse(out.p, out.n, -EINVAL, "nested more than 32 deep");
        else
            eq_int(otlp_decode_borrowed(out.p, out.n, NULL, &b, NULL), 0);
        batch_unref(b);
    }
}

static void test_limits(void)
{
    _cleanup_(buf_done) struct buf empties = BUF_INIT, out = BUF_INIT, dict = BUF_INIT;
    struct otlp_limits small = {.input = 10};
    struct batch *b = NULL;
    struct err e = {0};

    eq_int(otlp_decode_borrowed("12345678901", 11, &small, &b, &e), -EFBIG);
    /* 8 MiB of empty samples, of empty strings, of empty attributes: refused, not turned into 128 MiB. */
    for (size_t i = 0; i < 4 << 20; i++)
        buf_put(&empties, "\x12\x00", 2);
    wrap(&out, &empties, &dict, false);
    refuse(out.p, out.n, -EFBIG, "empty messages");
    for (uint32_t field = 1; field <= 7; field++) {
        buf_reset(&empties);
        buf_reset(&out);
        for (size_t i = 0; i < 4 << 20; i++)
            wire_put_bytes_always(&empties, field, "", 0);
        wire_put_bytes_always(&out, 2, empties.p, empties.n);
        b = NULL;
        eq_int(otlp_decode_borrowed(out.p, out.n, NULL, &b, &e), -EFBIG);
        ok(strstr(e.message, "empty messages"));
    }
}

static void test_paths(void)
{
    struct err e = {0};

    eq_int(otlp_check_path(STR("/v1development/profiles"), &e), 0);
    eq_int(otlp_check_path(STR("/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export"), &e), 0);
    eq_int(otlp_check_path(STR("/opentelemetry.proto.collector.profiles.v1experimental.ProfilesService/Export"), &e),
           -EPROTONOSUPPORT);
    ok(strstr(e.message, "1.3") != NULL);
    eq_int(otlp_check_path(STR("/v1/traces"), &e), -ENOENT);
}

static int torture(void)
{
    _cleanup_(batch_unrefp) struct batch *b = make_batch(), *back = NULL;
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    struct otlp_encode_options refs = {.references = true};
    int r;

    if (!b)
        return -ENOMEM;
    r = otlp_encode(b, &refs, &out, NULL);
    return r < 0 ? r : otlp_decode(&out, NULL, &back, NULL);
}

int main(void)
{
    tap_run(test_round_trip);
    tap_run(test_groups);
    tap_run(test_unpacked_and_split);
    tap_run(test_unknown_fields);
    tap_run(test_tables_without_zero);
    tap_run(test_errors_have_places);
    tap_run(test_mutations);
    tap_run(test_depth);
    tap_run(test_limits);
    tap_run(test_paths);
    tap_torture_lax(torture, "a block that cannot be trimmed stays as it is");
    return tap_done();
}
