/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks, frames and threads of a JFR chunk as entries of the builder. Each constant is built once per chunk. */
#include "base/mem.h"
#include "codec/jfr/jfr_reader.h"
#include "model/builder.h"
#include "model/java_name.h"
#include "model/semconv.h"

enum { FRAMES_MAX = 65536, NAME_MAX_BYTES = 4096, ATTRS_MAX = 64, COST_PER_BYTE = 8 };

/* Kinds of frames, by the description of jdk.types.FrameType. */
enum jfr_frame_kind { FRAME_JAVA, FRAME_NATIVE, FRAME_KERNEL };

static struct str clip(struct str s)
{
    return str_slice(s, 0, NAME_MAX_BYTES);
}

static enum jfr_frame_kind frame_kind(struct jfr_reader *r, uint64_t type)
{
    struct jfr_constant *k = jfr_constant(r, JFR_FRAME_TYPE, type);
    struct jfr_object o;
    struct str text;

    if (!k)
        return FRAME_JAVA;
    if (!k->made && jfr_look_up(r, JFR_FRAME_TYPE, type, &o)) {
        text = jfr_string(r, &o.v[JFR_DESCRIPTION]);
        k->made = 1 + (str_is(text, "Kernel")                          ? FRAME_KERNEL
                       : str_is(text, "Native") || str_is(text, "C++") ? FRAME_NATIVE
                                                                       : FRAME_JAVA);
    }
    return k->made ? (enum jfr_frame_kind)(k->made - 1) : FRAME_JAVA;
}

/* The function of a method; the library of a native one is its class. made_too of the constant is the mapping. */
static bool build_method(struct jfr_reader *r, struct jfr_constant *k, enum jfr_frame_kind kind)
{
    struct jfr_object method, class;
    struct str of = {0}, name;
    uint32_t keep;

    if (!jfr_look_up(r, JFR_METHOD_TYPE, k->key, &method))
        return false;
    name = clip(jfr_symbol(r, &method.v[JFR_NAME]));
    if (jfr_look_up(r, JFR_CLASS_TYPE, (uint64_t) method.v[JFR_TYPE].n, &class))
        of = clip(jfr_symbol(r, &class.v[JFR_NAME]));
    if (!jfr_spend(r, (uint64_t) (of.n + name.n) / COST_PER_BYTE))
        return false;
    buf_reset(&r->name);
    k->made_too = 0;
    if (kind == FRAME_JAVA && of.n) {
        keep = java_generated_prefix(of); /* as Pyroscope does */
        buf_put_str(&r->name, keep ? str_slice(of, 0, keep) : of);
        buf_puts(&r->name, keep ? "_." : ".");
    } else if (of.n) {
        k->made_too = builder_mapping(r->b, &(struct mapping){.filename = builder_string(r->b, of)}, NULL, 0);
    }
    buf_put_str(&r->name, name);
    if (buf_error(&r->name))
        return false;
    k->made = 1 + builder_function(r->b, &(struct function){.name = builder_string(r->b, buf_str(&r->name))});
    return true;
}

static bool build_frame(struct jfr_reader *r, const struct jfr_object *frame, uint32_t *ret)
{
    static const struct str names[] = {{"jvm", 3}, {"native", 6}, {"kernel", 6}};
    enum jfr_frame_kind kind = frame_kind(r, (uint64_t) frame->v[JFR_TYPE].n);
    struct jfr_constant *k = jfr_constant(r, JFR_METHOD_TYPE, (uint64_t) frame->v[JFR_METHOD].n);
    uint32_t attr = builder_attr_str(r->b, STR(SEMCONV_FRAME_TYPE), names[kind]);
    struct line line = {.line = MAX(frame->v[JFR_LINE].n, 0)};

    if (!k || (!k->made && !build_method(r, k, kind)))
        return false;
    line.function = k->made - 1;
    *ret = builder_location(
        r->b,
        &(struct builder_location){.mapping = k->made_too, .lines = &line, .n_lines = 1, .attrs = &attr, .n_attrs = 1});
    return true;
}

bool jfr_stack(struct jfr_reader *r, uint64_t key, uint32_t *ret)
{
    struct jfr_constant *k = jfr_constant(r, JFR_STACK_TRACE, key);
    const struct jfr_class *frame_class = NULL;
    struct jfr_object trace, frame;
    struct cursor c;
    uint32_t n = 0;

    if (!k)
        return false;
    if (k->made) {
        *ret = k->made - 1;
        return true;
    }
    if (!jfr_look_up(r, JFR_STACK_TRACE, key, &trace))
        return false;
    for (size_t i = 0; i < r->classes[k->class].n_fields; i++) {
        const struct jfr_field *f = &r->classes[k->class].fields[i];

        if (f->slot == JFR_FRAMES && f->array && !f->constant && f->class != UINT32_MAX)
            frame_class = &r->classes[f->class];
    }
    if (!frame_class || trace.v[JFR_FRAMES].n < 0 || trace.v[JFR_FRAMES].n > FRAMES_MAX ||
        array_reserve(r->stack, r->cap_stack, (size_t) trace.v[JFR_FRAMES].n, FRAMES_MAX) < 0)
        return false;
    c = jfr_cursor(r, trace.v[JFR_FRAMES].at);
    for (int64_t i = 0; i < trace.v[JFR_FRAMES].n && !c.bad; i++) {
        memset(&frame, 0, sizeof frame);
        jfr_get_object(r, &c, frame_class, &frame);
        if (!c.bad && build_frame(r, &frame, &r->stack[n]))
            n++;
    }
    *ret = builder_stack(r->b, r->stack, n);
    k->made = *ret + 1;
    return true;
}

/* Adds the thread's name and id. */
static uint32_t thread_attrs(struct jfr_reader *r, uint64_t key, uint32_t *attrs)
{
    struct jfr_constant *k = jfr_constant(r, JFR_THREAD_TYPE, key);
    struct jfr_object o;
    uint32_t n = 0;

    if (!k)
        return 0;
    if (!k->made && jfr_look_up(r, JFR_THREAD_TYPE, key, &o)) {
        struct str java = jfr_string(r, &o.v[JFR_JAVA_NAME]), os = jfr_string(r, &o.v[JFR_OS_NAME]);
        int64_t id = o.v[JFR_JAVA_THREAD].n > 0 ? o.v[JFR_JAVA_THREAD].n : o.v[JFR_OS_THREAD].n;

        k->made = 1 + builder_attr_str(r->b, STR(SEMCONV_THREAD_NAME), clip(java.n ? java : os));
        k->made_too = 1 + builder_attr_int(r->b, STR(SEMCONV_THREAD_ID), id, (struct str){0});
    }
    if (k->made)
        attrs[n++] = k->made - 1;
    if (k->made_too)
        attrs[n++] = k->made_too - 1;
    return n;
}

struct run jfr_attrs(struct jfr_reader *r, const struct jfr_object *event)
{
    uint32_t attrs[ATTRS_MAX], n = 0;

    if (r->threads)
        n = thread_attrs(r, (uint64_t) event->v[JFR_THREAD].n, attrs);
    if (r->labels)
        n += jfr_labels_of(r->labels, event, r->b, attrs + n, ATTRS_MAX - n);
    return n ? builder_attrs(r->b, attrs, n) : (struct run){0};
}
