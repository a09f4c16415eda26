/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the current span (py_span.h). Runs in signal handlers. */
#include "py_span.h"

#include <stdatomic.h>
#include <string.h>

#include "peek.h"

enum { TRIE_DEPTH = 8, ENTRIES_LIMIT = 256, NODES_LIMIT = 64 };

#if PYLONG_BITS_IN_DIGIT != 30
#error "an interpreter with 30-bit digits is needed"
#endif

static struct {
    _Atomic uint64_t variable; /* addresses of objects; 0: not bound. Stored last */
    uint64_t key, span_context, attribute;
    int32_t hash;
} bound;

/* As hamt.c folds a hash. */
static int32_t fold(Py_hash_t h)
{
    int32_t x = (int32_t) (uint32_t) h ^ (int32_t) (uint32_t) ((uint64_t) h >> 32);

    return x == -1 ? -2 : x;
}

void py_span_bind(PyObject *variable, PyObject *key, PyObject *span_context)
{
    PyObject *name = PyUnicode_InternFromString("_context");
    Py_hash_t h = PyObject_Hash(variable);

    if (!name || (h == -1 && PyErr_Occurred())) {
        PyErr_Clear();
        return;
    }
    Py_INCREF(variable);
    Py_INCREF(key);
    Py_INCREF(span_context);
    bound.key = (uint64_t) (uintptr_t) key;
    bound.span_context = (uint64_t) (uintptr_t) span_context;
    bound.attribute = (uint64_t) (uintptr_t) name;
    bound.hash = fold(h);
    atomic_store(&bound.variable, (uint64_t) (uintptr_t) variable);
}

static bool type_name_is(struct peek *p, uint64_t type, const char *name)
{
    uint64_t text = 0;
    char got[32] = "";
    size_t n = strlen(name) + 1;

    return peek_u64(p, type + offsetof(PyTypeObject, tp_name), &text) && n <= sizeof got &&
           peek_copy(p, text, got, n) && memcmp(got, name, n) == 0;
}

/* --- the trie of a context's variables --- */
/* One step: returns true with *ret set to the value of the variable; or false with *node set to the next node, 0 if the
 * variable is not there. */
static bool bitmap_step(struct peek *p, uint64_t *node, uint32_t shift, uint64_t variable, uint64_t *ret)
{
    struct py_hamt_bitmap b;
    uint32_t bit = 1u << (((uint32_t) bound.hash >> shift) & 31), i;
    uint64_t at = *node, pair[2];

    *node = 0;
    if (!peek_copy(p, at, &b, offsetof(struct py_hamt_bitmap, array)) || !(b.bitmap & bit))
        return false;
    i = (uint32_t) __builtin_popcount(b.bitmap & (bit - 1));
    if (!peek_copy(p, at + offsetof(struct py_hamt_bitmap, array) + i * 16ul, pair, sizeof pair))
        return false;
    if (!pair[0])
        *node = pair[1];
    *ret = pair[1];
    return pair[0] == variable;
}

static bool collision_find(struct peek *p, uint64_t at, uint64_t variable, uint64_t *ret)
{
    struct py_hamt_collision c;
    uint64_t pair[2];

    if (!peek_copy(p, at, &c, offsetof(struct py_hamt_collision, array)))
        return false;
    for (Py_ssize_t i = 0; i + 1 < Py_SIZE(&c) && i < NODES_LIMIT; i += 2)
        if (peek_copy(p, at + offsetof(struct py_hamt_collision, array) + (uint64_t) i * 8, pair, sizeof pair) &&
            pair[0] == variable) {
            *ret = pair[1];
            return true;
        }
    return false;
}

static bool find_variable(struct peek *p, uint64_t context, uint64_t variable, uint64_t *ret)
{
    uint64_t node = 0, type = 0;

    if (!peek_u64(p, context + offsetof(struct py_context, vars), &node) || !node ||
        !peek_u64(p, node + offsetof(struct py_hamt, root), &node))
        return false;
    for (uint32_t shift = 0, i = 0; node && i < TRIE_DEPTH; i++, shift += 5) {
        if (!peek_u64(p, node + offsetof(PyObject, ob_type), &type))
            return false;
        if (type_name_is(p, type, "hamt_bitmap_node")) {
            if (bitmap_step(p, &node, shift, variable, ret))
                return true;
        } else if (type_name_is(p, type, "hamt_array_node")) {
            uint32_t k = ((uint32_t) bound.hash >> shift) & 31;

            if (!peek_u64(p, node + offsetof(struct py_hamt_array, array) + k * 8ul, &node))
                return false;
        } else {
            return type_name_is(p, type, "hamt_collision_node") && collision_find(p, node, variable, ret);
        }
    }
    return false;
}

/* --- dictionaries --- */
/* The place of the entries of a keys object, and the size of one. */
static uint64_t entries_of(const struct py_dict_keys *k, uint64_t keys, uint64_t *ret_size)
{
#if PY_VERSION_HEX >= 0x030b0000
    *ret_size = k->kind == 0 ? 24 : 16;
    return keys + sizeof *k + (1ull << (k->log2_index_bytes & 63));
#else
    uint64_t size = (uint64_t) k->size, width = size <= 0xff ? 1 : size <= 0xffff ? 2 : size <= 0xffffffff ? 4 : 8;

    *ret_size = 24;
    return keys + sizeof *k + size * width;
#endif
}

/* Finds a key by identity. values: the array of a split table, 0 for a combined one. */
static uint64_t find_in_keys(struct peek *p, uint64_t keys, uint64_t values, uint64_t key)
{
    struct py_dict_keys k;
    uint64_t entries, size, entry[3], value = 0;

    if (!keys || !peek_copy(p, keys, &k, sizeof k))
        return 0;
    entries = entries_of(&k, keys, &size);
    for (Py_ssize_t i = 0; i < k.nentries && i < ENTRIES_LIMIT; i++) {
        if (!peek_copy(p, entries + (uint64_t) i * size, entry, size))
            return 0;
        if (entry[size / 8 - 2] != key)
            continue;
        if (!values)
            return entry[size / 8 - 1];
        return peek_u64(p, values + (uint64_t) i * 8, &value) ? value : 0;
    }
    return 0;
}

static uint64_t find_in_dict(struct peek *p, uint64_t dict, uint64_t key)
{
    uint64_t keys = 0, values = 0;

    if (!dict || !peek_u64(p, dict + offsetof(PyDictObject, ma_keys), &keys) ||
        !peek_u64(p, dict + offsetof(PyDictObject, ma_values), &values))
        return 0;
    return find_in_keys(p, keys, values ? values + PY_VALUES_OFFSET : 0, key);
}

/* --- attributes of instances --- */
#if PY_VERSION_HEX >= 0x030b0000
static uint64_t shared_keys(struct peek *p, uint64_t type)
{
    uint64_t keys = 0;

    return peek_u64(p, type + offsetof(PyHeapTypeObject, ht_cached_keys), &keys) ? keys : 0;
}
#endif

/* The attribute _context of a span; 0 if it has none. */
static uint64_t span_attribute(struct peek *p, uint64_t object)
{
    uint64_t type = 0, a = 0;
    PyTypeObject t;

    if (!peek_u64(p, object + offsetof(PyObject, ob_type), &type) || !peek_copy(p, type, &t, sizeof t))
        return 0;
#if PY_VERSION_HEX >= 0x030d0000
    if (t.tp_flags & Py_TPFLAGS_INLINE_VALUES) {
        uint64_t values = object + (uint64_t) t.tp_basicsize;
        uint8_t head[4] = {0};

        if (peek_copy(p, values, head, sizeof head) && head[3])
            return find_in_keys(p, shared_keys(p, type), values + PY_VALUES_OFFSET, bound.attribute);
    }
    if (t.tp_flags & Py_TPFLAGS_MANAGED_DICT)
        return peek_u64(p, object - 24, &a) ? find_in_dict(p, a & ~1ull, bound.attribute) : 0;
#elif PY_VERSION_HEX >= 0x030c0000
    if (t.tp_flags & Py_TPFLAGS_MANAGED_DICT) {
        if (!peek_u64(p, object - 24, &a))
            return 0;
        return a & 1 ? find_in_keys(p, shared_keys(p, type), a + 1, bound.attribute)
                     : find_in_dict(p, a, bound.attribute);
    }
#elif PY_VERSION_HEX >= 0x030b0000
    if (t.tp_flags & Py_TPFLAGS_MANAGED_DICT) {
        if (peek_u64(p, object - 32, &a) && a)
            return find_in_keys(p, shared_keys(p, type), a, bound.attribute);
        return peek_u64(p, object - 24, &a) ? find_in_dict(p, a, bound.attribute) : 0;
    }
#endif
    if (t.tp_dictoffset > 0 && peek_u64(p, object + (uint64_t) t.tp_dictoffset, &a))
        return find_in_dict(p, a, bound.attribute);
    return 0;
}

/* --- numbers --- */
/* An int of at most n bytes, big-endian; false if it is zero, too large, or none. */
static bool read_int(struct peek *p, uint64_t object, uint8_t *to, uint32_t n)
{
    struct {
        PyObject head;
        int64_t size;
        uint32_t digits[6];
    } v;
    __uint128_t x = 0;
    int64_t count;

    memset(&v, 0, sizeof v);
    if (!peek_copy(p, object, &v, offsetof(PyLongObject, ob_base) + 24) || v.head.ob_type != &PyLong_Type)
        return false;
#if PY_VERSION_HEX >= 0x030c0000
    count = v.size >> 3;
#else
    count = v.size;
#endif
    if (count < 1 || count > 5 || !peek_copy(p, object + 24, v.digits, (size_t) count * 4))
        return false;
    for (int64_t i = count; i-- > 0;)
        x = x << 30 | v.digits[i];
    for (uint32_t i = n; i-- > 0; x >>= 8)
        to[i] = (uint8_t) x;
    return x == 0;
}

/* The span of a context; false if it has none. */
static bool find_span(struct peek *p, uint64_t context, uint8_t *trace_id, uint8_t *span_id)
{
    uint64_t variable = atomic_load(&bound.variable), at = 0, type = 0, ids[2];

    if (!variable || !context || !find_variable(p, context, variable, &at) || !(at = find_in_dict(p, at, bound.key)) ||
        !(at = span_attribute(p, at)))
        return false;
    if (!peek_u64(p, at + offsetof(PyObject, ob_type), &type) || type != bound.span_context ||
        !peek_copy(p, at + offsetof(PyTupleObject, ob_item), ids, sizeof ids))
        return false;
    return read_int(p, ids[0], trace_id, 16) && read_int(p, ids[1], span_id, 8);
}

bool py_span_of_context(PyObject *context, uint8_t trace_id[16], uint8_t span_id[8])
{
    struct peek p;

    peek_init(&p, false);
    return find_span(&p, (uint64_t) (uintptr_t) context, trace_id, span_id);
}

void py_span_find(struct wick_ext_stack *s, uint64_t tstate)
{
    uint64_t context = 0;
    struct peek p;

    if (!atomic_load(&bound.variable))
        return;
    peek_init(&p, s->tid != 0);
    if (peek_u64(&p, tstate + offsetof(PyThreadState, context), &context))
        s->span = find_span(&p, context, s->trace_id, s->span_id);
}
