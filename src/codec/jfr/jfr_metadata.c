/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the metadata event of a JFR chunk. After its three numbers it has a table of strings, and a tree of elements:
 *
 *   element   name, count of attributes, (key, value)..., count of children, elements...
 *
 * where every name, key and value is the number of a string. Of the tree, the elements `class` with their attributes
 * name and id, and their children `field` with name, class, dimension and constantPool are needed.
 */
#include <errno.h>

#include "base/mem.h"
#include "codec/jfr/jfr_reader.h"

enum { ELEMENT_DEPTH_MAX = 32, CLASSES_MAX = 1 << 20, FIELDS_MAX = 4096 };

struct named_number {
    const char *name;
    uint8_t number;
};

static const struct named_number slots[] = {
    {"duration", JFR_DURATION},
    {"startTime", JFR_START},
    {"sampledThread", JFR_THREAD},
    {"eventThread", JFR_THREAD},
    {"stackTrace", JFR_STACK},
    {"state", JFR_STATE},
    {"samples", JFR_SAMPLES},
    {"timeSpan", JFR_TIME_SPAN},
    {"tlabSize", JFR_TLAB_SIZE},
    {"allocationSize", JFR_ALLOCATION_SIZE},
    {"weight", JFR_WEIGHT},
    {"size", JFR_SIZE},
    {"samplingPeriod", JFR_PERIOD},
    {"contextId", JFR_CONTEXT},
    {"spanId", JFR_SPAN_ID},
    {"spanName", JFR_SPAN_NAME},
    {"id", JFR_ID},
    {"name", JFR_NAME},
    {"value", JFR_VALUE},
    {"type", JFR_TYPE},
    {"method", JFR_METHOD},
    {"lineNumber", JFR_LINE},
    {"frames", JFR_FRAMES},
    {"string", JFR_STRING},
    {"osName", JFR_OS_NAME},
    {"javaName", JFR_JAVA_NAME},
    {"osThreadId", JFR_OS_THREAD},
    {"javaThreadId", JFR_JAVA_THREAD},
    {"description", JFR_DESCRIPTION},
};

static const struct named_number roles[] = {
    {"jdk.types.StackTrace", JFR_STACK_TRACE},
    {"jdk.types.Method", JFR_METHOD_TYPE},
    {"java.lang.Class", JFR_CLASS_TYPE},
    {"jdk.types.Symbol", JFR_SYMBOL},
    {"java.lang.Thread", JFR_THREAD_TYPE},
    {"jdk.types.ThreadState", JFR_THREAD_STATE},
    {"jdk.types.FrameType", JFR_FRAME_TYPE},
    {"java.lang.String", JFR_TEXT},
    {"jdk.ExecutionSample", JFR_EXECUTION_SAMPLE},
    {"jdk.CPUTimeSample", JFR_CPU_TIME_SAMPLE},
    {"jdk.NativeMethodSample", JFR_NATIVE_SAMPLE},
    {"profiler.WallClockSample", JFR_WALL_SAMPLE},
    {"jdk.ObjectAllocationInNewTLAB", JFR_ALLOC_IN_TLAB},
    {"jdk.ObjectAllocationOutsideTLAB", JFR_ALLOC_OUTSIDE_TLAB},
    {"jdk.ObjectAllocationSample", JFR_ALLOC_SAMPLE},
    {"profiler.LiveObject", JFR_LIVE_OBJECT},
    {"profiler.Malloc", JFR_MALLOC},
    {"jdk.JavaMonitorEnter", JFR_MONITOR_ENTER},
    {"jdk.ThreadPark", JFR_THREAD_PARK},
    {"jdk.ActiveSetting", JFR_SETTING},
};

static const struct named_number forms[] = {
    {"boolean", JFR_BYTE}, {"byte", JFR_BYTE},     {"short", JFR_INTEGER},
    {"char", JFR_INTEGER}, {"int", JFR_INTEGER},   {"long", JFR_INTEGER},
    {"float", JFR_FLOAT},  {"double", JFR_DOUBLE}, {"java.lang.String", JFR_STRING_FORM},
};

static uint8_t number_of(const struct named_number *table, size_t n, struct str name)
{
    for (size_t i = 0; i < n; i++)
        if (str_is(name, table[i].name))
            return table[i].number;
    return 0;
}

/* The strings of the event, and the tree below them. */
struct jfr_tree {
    struct jfr_reader *r;
    struct cursor c;
    struct str *strings;
    uint64_t n_strings;
    int error; /* other than a damaged input */
};

struct jfr_element {
    struct str name, class, dimension, constant_pool, id;
};

static struct str tree_string(struct jfr_tree *t)
{
    uint64_t i = jfr_get(&t->c);

    if (i < t->n_strings)
        return t->strings[i];
    cursor_fail(&t->c);
    return (struct str){0};
}

static void read_attributes(struct jfr_tree *t, struct jfr_element *ret)
{
    for (uint64_t n = jfr_get(&t->c); n > 0 && !t->c.bad; n--) {
        struct str key = tree_string(t), value = tree_string(t);

        if (str_is(key, "name"))
            ret->name = value;
        else if (str_is(key, "class"))
            ret->class = value;
        else if (str_is(key, "dimension"))
            ret->dimension = value;
        else if (str_is(key, "constantPool"))
            ret->constant_pool = value;
        else if (str_is(key, "id"))
            ret->id = value;
    }
}

static void add_class(struct jfr_tree *t, const struct jfr_element *el)
{
    struct jfr_class k = {.role = number_of(roles, ARRAY_SIZE(roles), el->name),
                          .form = number_of(forms, ARRAY_SIZE(forms), el->name)};

    if (str_to_u64(el->id, 10, &k.id) < 0)
        cursor_fail(&t->c);
    else
        t->error = array_push(t->r->classes, t->r->n_classes, t->r->cap_classes, CLASSES_MAX, k);
}

static void add_field(struct jfr_tree *t, const struct jfr_element *el)
{
    struct jfr_class *k = t->r->n_classes ? &t->r->classes[t->r->n_classes - 1] : NULL;
    struct jfr_field f = {.class = UINT32_MAX,
                          .slot = number_of(slots, ARRAY_SIZE(slots), el->name),
                          .array = el->dimension.n && !str_is(el->dimension, "0"),
                          .constant = str_is(el->constant_pool, "true")};

    if (!k || str_to_u64(el->class, 10, &f.type) < 0)
        cursor_fail(&t->c);
    else
        t->error = array_push(k->fields, k->n_fields, k->cap_fields, FIELDS_MAX, f);
}

static void read_element(struct jfr_tree *t, int depth)
{
    struct str name = tree_string(t);
    struct jfr_element el = {0};

    read_attributes(t, &el);
    if (depth > ELEMENT_DEPTH_MAX)
        cursor_fail(&t->c);
    if (t->c.bad)
        return;
    if (str_is(name, "class"))
        add_class(t, &el);
    else if (str_is(name, "field"))
        add_field(t, &el);
    for (uint64_t n = jfr_get(&t->c); n > 0 && !t->c.bad && !t->error; n--)
        read_element(t, depth + 1);
}

/* Every class is known now: joins fields with theirs. */
static int join_classes(struct jfr_reader *r)
{
    for (size_t i = 0; i < r->n_classes; i++) {
        int rc = map_insert(&r->class_map, hash64_u64(r->classes[i].id), (uint32_t) i);

        if (rc < 0)
            return rc;
    }
    for (size_t i = 0; i < r->n_classes; i++)
        for (size_t k = 0; k < r->classes[i].n_fields; k++) {
            struct jfr_field *f = &r->classes[i].fields[k];
            const struct jfr_class *of = jfr_class_by_id(r, f->type);

            f->class = of ? (uint32_t) (of - r->classes) : UINT32_MAX;
        }
    return 0;
}

int jfr_read_metadata(struct jfr_reader *r, struct cursor c, struct err *e)
{
    struct jfr_tree t = {.r = r, .c = c};
    size_t at = (size_t) ((const char *) c.p - r->data.p);

    for (int i = 0; i < 3; i++) /* start, duration, id */
        jfr_get(&t.c);
    t.n_strings = jfr_get(&t.c);
    if (t.n_strings > (uint64_t) (t.c.end - t.c.p))
        return err_set(e, -EINVAL, "JFR: the metadata at byte %zu is damaged", at);
    t.strings = arena_zalloc_array(&r->arena, t.n_strings + 1, sizeof *t.strings);
    if (!t.strings)
        return err_set(e, -ENOMEM, "JFR: no memory for %llu names", (unsigned long long) t.n_strings);
    for (uint64_t i = 0; i < t.n_strings && !t.c.bad; i++) {
        struct jfr_value v = {0};

        jfr_get_text(r, &t.c, true, &v);
        t.strings[i] = v.text;
    }
    if (!t.c.bad)
        read_element(&t, 0);
    if (t.error == 0 && t.c.bad)
        return err_set(e, r->arena.failed ? -ENOMEM : -EINVAL, "JFR: the metadata at byte %zu is damaged", at);
    if (t.error == 0)
        t.error = join_classes(r);
    return t.error < 0 ? err_set(e, t.error, "JFR: the metadata at byte %zu: %m", at) : 0;
}

const struct jfr_class *jfr_class_by_id(const struct jfr_reader *r, uint64_t id)
{
    uint64_t h = hash64_u64(id);

    for (struct map_pos p = map_find(&r->class_map, h); p.index != MAP_NONE; p = map_next(&r->class_map, p))
        if (r->classes[p.index].id == id)
            return &r->classes[p.index];
    return NULL;
}

void jfr_forget_metadata(struct jfr_reader *r)
{
    for (size_t i = 0; i < r->n_classes; i++)
        mem_free(r->classes[i].fields);
    r->n_classes = 0;
    map_reset(&r->class_map);
}
