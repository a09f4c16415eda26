/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a batch (see batch.h): creation, sharing, reference counting; attribute values as text; and the
 * validation that tests and fuzzers use. */
#include "model/batch.h"

#include <errno.h>

#include "base/bytes.h"
#include "base/json.h"
#include "base/mem.h"

/* Entry 0 of every table, shared by all batches whose table holds nothing else. Never written to. */
static struct str zero_strings[1];
static struct mapping zero_mappings[1];
static struct function zero_functions[1];
static struct location zero_locations[1];
static struct run zero_stacks[1];
static struct link zero_links[1];
static struct attr zero_attrs[1];

int batch_new(size_t memory_limit, struct batch **ret)
{
    struct batch *b = mem_zalloc(sizeof *b);

    if (!b)
        return -ENOMEM;
    arena_init(&b->arena, memory_limit);
    b->refs = 1;
    b->dict = (struct dict){
        .strings = zero_strings,
        .mappings = zero_mappings,
        .functions = zero_functions,
        .locations = zero_locations,
        .stacks = zero_stacks,
        .links = zero_links,
        .attrs = zero_attrs,
        .n_strings = 1,
        .n_mappings = 1,
        .n_functions = 1,
        .n_locations = 1,
        .n_stacks = 1,
        .n_links = 1,
        .n_attrs = 1,
    };
    *ret = b;
    return 0;
}

struct batch *batch_ref(struct batch *b)
{
    atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
    return b;
}

void batch_unref(struct batch *b)
{
    if (!b || atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) != 1)
        return;
    arena_done(&b->arena);
    for (size_t i = 0; i < BATCH_OWNED_MAX; i++)
        mem_free(b->owned[i]);
    mem_free(b->input);
    batch_unref(b->parent);
    mem_free(b);
}

int batch_share(struct batch *b, struct batch **ret)
{
    struct batch *x;
    int r = batch_new(0, &x);

    if (r < 0)
        return r;
    x->dict = b->dict;
    x->scopes = b->scopes;
    x->profiles = b->profiles;
    x->samples = b->samples;
    x->values = b->values;
    x->timestamps = b->timestamps;
    x->n_scopes = b->n_scopes;
    x->n_profiles = b->n_profiles;
    x->n_samples = b->n_samples;
    x->n_values = b->n_values;
    x->n_timestamps = b->n_timestamps;
    x->parent = batch_ref(b);
    x->resources = arena_zalloc_array(&x->arena, b->n_resources, sizeof *x->resources);
    if (!x->resources) {
        batch_unref(x);
        return -ENOMEM;
    }
    if (b->n_resources)
        memcpy(x->resources, b->resources, b->n_resources * sizeof *x->resources);
    x->n_resources = b->n_resources;
    *ret = x;
    return 0;
}

size_t batch_memory(const struct batch *b)
{
    return b->arena.used + b->input_size + b->owned_size + sizeof *b + (b->parent ? batch_memory(b->parent) : 0);
}

const struct attr *batch_attr(const struct batch *b, struct run attrs, struct str key)
{
    for (uint32_t i = 0; i < attrs.n; i++) {
        const struct attr *a = &b->dict.attrs[b->dict.indices[attrs.off + i]];

        if (str_eq(b->dict.strings[a->key], key))
            return a;
    }
    return NULL;
}

bool batch_attr_true(const struct batch *b, struct run attrs, struct str key)
{
    const struct attr *a = attrs.n ? batch_attr(b, attrs, key) : NULL;

    return a && a->value.kind == VALUE_BOOL && a->value.boolean;
}

const struct value *kvs_get(const struct kvs *kvs, struct str key)
{
    for (uint32_t i = 0; i < kvs->n; i++)
        if (str_eq(kvs->v[i].key, key))
            return &kvs->v[i].value;
    return NULL;
}

static bool map_eq(const struct value *a, const struct value *b)
{
    for (uint32_t i = 0; i < a->n; i++)
        if (!str_eq(a->map[i].key, b->map[i].key) || !value_eq(&a->map[i].value, &b->map[i].value))
            return false;
    return true;
}

bool value_eq(const struct value *a, const struct value *b)
{
    if (a->kind != b->kind)
        return false;
    switch (a->kind) {
    case VALUE_STR:
    case VALUE_BYTES:
        return str_eq(value_str(a), value_str(b));
    case VALUE_BOOL:
        return a->boolean == b->boolean;
    case VALUE_INT:
        return a->integer == b->integer;
    case VALUE_DOUBLE:
        return memcmp(&a->number, &b->number, sizeof a->number) == 0;
    case VALUE_ARRAY:
        if (a->n != b->n)
            return false;
        for (uint32_t i = 0; i < a->n; i++)
            if (!value_eq(&a->array[i], &b->array[i]))
                return false;
        return true;
    case VALUE_MAP:
        return a->n == b->n && map_eq(a, b);
    default:
        return true;
    }
}

/* Prints a value as JSON, for elements of lists. */
static void print_json(struct buf *out, const struct value *v)
{
    bool first = true;

    switch (v->kind) {
    case VALUE_STR:
        json_put_str(out, value_str(v));
        break;
    case VALUE_BYTES:
        buf_putc(out, '"');
        hex_encode(out, v->str, v->n);
        buf_putc(out, '"');
        break;
    case VALUE_ARRAY:
        buf_putc(out, '[');
        for (uint32_t i = 0; i < v->n; i++) {
            json_sep(out, &first);
            print_json(out, &v->array[i]);
        }
        buf_putc(out, ']');
        break;
    case VALUE_MAP:
        buf_putc(out, '{');
        for (uint32_t i = 0; i < v->n; i++) {
            json_sep(out, &first);
            json_put_str(out, v->map[i].key);
            buf_putc(out, ':');
            print_json(out, &v->map[i].value);
        }
        buf_putc(out, '}');
        break;
    case VALUE_EMPTY:
        buf_puts(out, "null");
        break;
    default:
        value_print(out, v);
    }
}

void value_print(struct buf *out, const struct value *v)
{
    switch (v->kind) {
    case VALUE_STR:
        buf_put_str(out, value_str(v));
        break;
    case VALUE_BYTES:
        hex_encode(out, v->str, v->n);
        break;
    case VALUE_BOOL:
        buf_puts(out, v->boolean ? "true" : "false");
        break;
    case VALUE_INT:
        json_put_i64(out, v->integer);
        break;
    case VALUE_DOUBLE:
        json_put_double(out, v->number);
        break;
    case VALUE_ARRAY:
    case VALUE_MAP:
        print_json(out, v);
        break;
    default:
        break;
    }
}
