/* SPDX-License-Identifier: Apache-2.0 */
#include "batch_validate.h"
#include "tap.h"

#include "model/builder.h"
#include "model/convert.h"

static uint32_t location(struct builder *b, const char *name, uint64_t address)
{
    uint32_t s = builder_string(b, str_from(name));
    struct line line = {.function = builder_function(b, &(struct function){.name = s}), .line = 3};

    return builder_location(b, &(struct builder_location){.address = address, .lines = &line, .n_lines = *name != 0});
}

/* A resource with the given profiles (type names) of the same two stacks; values are 1 and 2, times 10 per type. */
static void add_resource(struct builder *b, const char *host, const char *const *types, uint32_t group, bool link)
{
    uint32_t main_ = location(b, "main", 0), work = location(b, "work", 0), bare = location(b, "", 0x99);
    uint32_t stacks[2] = {builder_stack(b, (uint32_t[]){work, main_}, 2),
                          builder_stack(b, (uint32_t[]){bare, main_}, 2)};
    int64_t factor = 1;

    builder_resource(b);
    builder_resource_attr_str(b, STR("host.name"), str_from(host));
    builder_resource_attr_str(b, STR("service.name"), STR("shop"));
    builder_scope(b, STR("test"), (struct str){0});
    for (; *types; types++, factor *= 10) {
        struct value_type t = {builder_string(b, str_from(*types)), builder_string(b, STR("count"))};
        struct profile *p = builder_profile(b, &t, 1);

        if (!p)
            return;
        p->group = group;
        p->time_ns = 100;
        p->duration_ns = 50;
        p->default_type = strcmp(*types, "second") == 0;
        for (int64_t i = 0; i < 2; i++)
            builder_sample(
                b, &(struct builder_sample){.stack = stacks[i],
                                            .link = link ? builder_link(b, &(struct link){.span_id = {0xab}}) : 0,
                                            .values = &(int64_t){(i + 1) * factor},
                                            .n_values = 1});
    }
}

static const char *const two[] = {"first", "second", NULL}, *const one[] = {"other", NULL};

static int build(struct batch **ret, bool second, bool link)
{
    _cleanup_(builder_freep) struct builder *b = NULL;
    int r = builder_new(NULL, &b);

    if (r < 0)
        return r;
    add_resource(b, "a", two, 1, link);
    if (second) {
        add_resource(b, "b", two, 1, link);
        add_resource(b, "b", one, 0, link);
    }
    return builder_finish(b, ret, NULL);
}

static void check(const struct batch *b)
{
    struct err e = {0};

    if (batch_validate(b, &e) < 0)
        tap_fail("%s", e.message);
}

static int join(void)
{
    _cleanup_(batch_unrefp) struct batch *b = NULL, *x = NULL, *y = NULL, *z = NULL;
    const struct profile *p;
    int r = build(&b, true, false);

    if (r == 0)
        r = convert_join_types(b, &x, NULL);
    if (r == 0)
        r = convert_split_types(x, &y, NULL);
    if (r == 0)
        r = convert_join_types(y, &z, NULL);
    if (r < 0)
        return r;
    check(x);
    check(y);
    check(z);
    eq_int(x->n_profiles, 3);
    p = &x->profiles[0];
    eq_int(p->n_types, 2);
    eq_int(p->default_type, 2);
    eq_int(batch_sample_value(x, p, &x->samples[p->samples.off + 1], 1), 20);
    eq_int(y->n_profiles, 5);
    eq_int(y->profiles[1].default_type, 1);
    ok(y->profiles[1].group == y->profiles[0].group && y->profiles[2].group != y->profiles[1].group);
    eq_int(batch_sample_value(y, &y->profiles[1], &y->samples[y->profiles[1].samples.off + 1], 0), 20);
    eq_int(z->n_profiles, 3);
    eq_int(z->profiles[0].default_type, 2);
    eq_int(z->n_samples, x->n_samples);
    return 0;
}

static void test_join(void)
{
    eq_int(join(), 0);
}

static int single(void)
{
    _cleanup_(batch_unrefp) struct batch *b = NULL, *x = NULL;
    const struct profile *p;
    const struct attr *a;
    int r = build(&b, true, true);

    if (r == 0)
        r = convert_to_single(b, &x, NULL);
    if (r < 0)
        return r;
    check(x);
    eq_int(x->n_profiles, 2);
    p = &x->profiles[0];
    eq_int(p->n_types, 2);
    eq_int(p->samples.n, 4); /* hosts differ, so they do not merge */
    a = batch_attr(x, x->samples[3].attrs, STR("host.name"));
    eq_str(a ? value_str(&a->value) : STR("none"), STR("b"));
    ok(!batch_attr(x, x->samples[3].attrs, STR("service.name")));
    a = batch_attr(x, x->samples[3].attrs, STR("span_id"));
    eq_str(a ? value_str(&a->value) : STR("none"), STR("ab00000000000000"));
    eq_int(batch_sample_value(x, p, &x->samples[3], 1), 20);
    eq_int(x->samples[3].link, 0);
    eq_int(p->time_ns, 100);
    eq_int(p->duration_ns, 50);
    return 0;
}

static void test_single(void)
{
    _cleanup_(batch_unrefp) struct batch *b = NULL, *x = NULL;

    eq_int(single(), 0);
    eq_int(build(&b, false, false), 0);
    eq_int(convert_to_single(b, &x, NULL), 0);
    check(x);
    eq_int(x->n_profiles, 1);
    eq_int(x->profiles[0].default_type, 2);
    eq_int(x->samples[0].attrs.n, 0);
    ok(x->dict.locations == b->dict.locations);
}

/* Profiles that a translator has put into another order say which they had. */
static void test_type_order(void)
{
    struct value was[] = {{.kind = VALUE_INT, .integer = 1}, {.kind = VALUE_INT, .integer = 0}};
    struct kv attr = {STR("pprof.scope.sample_type_order"), {.kind = VALUE_ARRAY, .n = 2, .array = was}};
    _cleanup_(batch_unrefp) struct batch *b = NULL, *x = NULL, *y = NULL;

    eq_int(build(&b, false, false), 0);
    b->scopes[0].attrs = (struct kvs){&attr, 1};
    eq_int(convert_to_single(b, &x, NULL), 0);
    eq_str(batch_string(x, x->profiles[0].types[0].type), STR("second"));
    eq_int(x->profiles[0].default_type, 1);
    eq_int(batch_sample_value(x, x->profiles, &x->samples[1], 0), 20);
    eq_int(batch_sample_value(x, x->profiles, &x->samples[1], 1), 2);
    was[1].integer = 1; /* no order at all */
    eq_int(convert_to_single(b, &y, NULL), 0);
    eq_str(batch_string(y, y->profiles[0].types[0].type), STR("first"));
}

static int tree(void)
{
    _cleanup_(batch_unrefp) struct batch *b = NULL;
    _cleanup_(tree_freep) struct tree *t = NULL;
    int r = build(&b, false, false);

    if (r == 0)
        r = tree_new(1, 0, &t);
    if (r == 0)
        r = convert_to_tree(b, b->profiles, 0, t, 0);
    if (r < 0)
        return r;
    eq_int(t->n_nodes, 4);
    eq_int(t->total[0][0], 3);
    eq_str(t->frames[t->frame[1]].function, STR("main"));
    eq_int(t->total[0][1], 3);
    eq_int(t->frames[t->frame[1]].line, 0);
    eq_int(t->self[0][2], 1);
    eq_int(t->self[0][3], 2);
    eq_int(t->frames[t->frame[3]].address, 0x99);
    return 0;
}

static void test_tree(void)
{
    eq_int(tree(), 0);
}

int main(void)
{
    tap_run(test_join);
    tap_run(test_single);
    tap_run(test_type_order);
    tap_run(test_tree);
    tap_torture(join);
    tap_torture(single);
    tap_torture(tree);
    return tap_done();
}
