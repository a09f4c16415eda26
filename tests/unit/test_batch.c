/* SPDX-License-Identifier: Apache-2.0 */
#include "batch_validate.h"
#include "tap.h"

#include "model/builder.h"

/* A batch of one profile: two stacks, three samples, labels, a link. */
static int build(struct batch **ret)
{
    _cleanup_(builder_freep) struct builder *b = NULL;
    struct value_type type;
    struct profile *p;
    uint32_t fn[2], loc[2], attr;
    int r = builder_new(NULL, &b);

    if (r < 0)
        return r;
    builder_resource(b);
    builder_resource_attr_str(b, STR("service.name"), STR("checkout"));
    builder_scope(b, STR("test"), STR("1"));
    type = (struct value_type){builder_string(b, STR("cpu")), builder_string(b, STR("nanoseconds"))};
    p = builder_profile(b, &type, 1);
    if (p)
        p->time_ns = 1;
    fn[0] = builder_function(b, &(struct function){.name = builder_string(b, STR("main"))});
    fn[1] = builder_function(b, &(struct function){.name = builder_string(b, STR("work"))});
    for (int i = 0; i < 2; i++)
        loc[i] = builder_location(
            b, &(struct builder_location){.lines = &(struct line){.function = fn[i], .line = i + 1}, .n_lines = 1});
    attr = builder_attr_int(b, STR("thread.id"), 7, (struct str){0});
    for (int64_t v = 1; v <= 3; v++)
        builder_sample(b, &(struct builder_sample){
                              .stack = builder_stack(b, v == 2 ? loc : (uint32_t[]){loc[1], loc[0]}, v == 2 ? 1 : 2),
                              .link = builder_link(b, &(struct link){.span_id = {1}}),
                              .attrs = builder_attrs(b, &attr, 1),
                              .values = &v,
                              .n_values = 1});
    return builder_finish(b, ret, NULL);
}

static int build_and_append(void)
{
    _cleanup_(batch_unrefp) struct batch *one = NULL, *all = NULL;
    _cleanup_(builder_freep) struct builder *b = NULL;
    struct err e = {0};
    int r = build(&one);

    if (r < 0)
        return r;
    r = builder_new(NULL, &b);
    if (r < 0)
        return r;
    for (int i = 0; i < 3 && r == 0; i++)
        r = builder_append(b, one);
    if (r < 0)
        return r;
    r = builder_finish(b, &all, NULL);
    if (r < 0)
        return r;
    if (batch_validate(all, &e) < 0)
        tap_fail("%s", e.message);
    eq_int(all->n_resources, 1);
    eq_int(all->n_scopes, 1);
    eq_int(all->n_profiles, 3);
    eq_int(all->n_samples, 9);
    eq_int(all->dict.n_stacks, one->dict.n_stacks);
    eq_int(all->dict.n_strings, one->dict.n_strings);
    eq_int(all->dict.n_indices, one->dict.n_indices);
    return 0;
}

static void test_build(void)
{
    _cleanup_(batch_unrefp) struct batch *b = NULL;
    struct err e = {0};

    eq_int(build(&b), 0);
    ok(batch_validate(b, &e) == 0 || (printf("# %s\n", e.message), false));
    eq_int(b->dict.n_stacks, 3);
    eq_int(b->dict.n_locations, 3);
    eq_int(b->n_samples, 3);
    eq_int(batch_sample_value(b, &b->profiles[0], &b->samples[2], 0), 3);
    ok(batch_attr(b, b->samples[0].attrs, STR("thread.id")));
    eq_str(value_str(kvs_get(&b->resources[0].attrs, STR("service.name"))), STR("checkout"));
}

static void test_append(void)
{
    eq_int(build_and_append(), 0);
}

static void test_limit(void)
{
    _cleanup_(builder_freep) struct builder *b = NULL;
    struct batch *out = NULL;
    struct err e;
    char text[32];

    eq_int(builder_new(&(struct builder_limits){.memory = 100000}, &b), 0);
    for (int i = 0; i < 100000; i++) {
        snprintf(text, sizeof text, "string %d", i);
        builder_string(b, str_from(text));
    }
    ok(builder_finish(b, &out, &e) < 0);
    ok(!out);
}

static int split_and_share(void)
{
    _cleanup_(batch_unrefp) struct batch *one = NULL, *part = NULL, *shared = NULL;
    _cleanup_(builder_freep) struct builder *b = NULL;
    struct err e = {0};
    int r = build(&one);

    if (r == 0)
        r = builder_new(NULL, &b);
    if (r == 0)
        r = builder_append_part(b, one, 1, 1);
    if (r == 0)
        r = builder_finish(b, &part, NULL);
    if (r == 0)
        r = batch_share(part, &shared);
    if (r < 0)
        return r;
    if (batch_validate(shared, &e) < 0)
        tap_fail("%s", e.message);
    eq_int(shared->n_samples, 1);
    eq_int(shared->dict.n_stacks, 2);    /* the one that the sample has, and none */
    eq_int(shared->dict.n_locations, 2); /* of which only one location is left */
    eq_int(batch_sample_value(shared, &shared->profiles[0], &shared->samples[0], 0), 2);
    ok(kvs_get(&shared->resources[0].attrs, STR("service.name")) != NULL);
    return 0;
}

int main(void)
{
    tap_run(test_build);
    tap_run(test_append);
    tap_run(test_limit);
    tap_torture(build_and_append);
    tap_torture(split_and_share);
    return tap_done();
}
