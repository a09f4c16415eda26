/* SPDX-License-Identifier: Apache-2.0 */
/* Reads from a process what HotSpot says of its layout (hotspot.h), and checks it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/lang/hotspot/hotspot.h"

enum { ENTRIES_MAX = 8192, STRIDE_MAX = 256, CHUNK = 32, TEXT = 64, CODELETS_BYTES = 1 << 20, OFFSET_MAX = 4096 };

/* Fields of types: offsets, or addresses of static ones. */
#define FIELDS(X)                                                 \
    X(HEAPS, "CodeCache", "_heaps")                               \
    X(ARRAY_LEN, "GrowableArrayBase", "_len")                     \
    X(OLD_ARRAY_LEN, "GenericGrowableArray", "_len")              \
    X(ARRAY_DATA, "GrowableArray<int>", "_data")                  \
    X(HEAP_MEMORY, "CodeHeap", "_memory")                         \
    X(HEAP_SEGMAP, "CodeHeap", "_segmap")                         \
    X(HEAP_SHIFT, "CodeHeap", "_log2_segment_size")               \
    X(SPACE_LOW, "VirtualSpace", "_low_boundary")                 \
    X(SPACE_HIGH, "VirtualSpace", "_high_boundary")               \
    X(BLOB_NAME, "CodeBlob", "_name")                             \
    X(BLOB_KIND, "CodeBlob", "_kind")                             \
    X(BLOB_BEGIN, "CodeBlob", "_code_begin")                      \
    X(BLOB_END, "CodeBlob", "_code_end")                          \
    X(BLOB_CODE_OFFSET, "CodeBlob", "_code_offset")               \
    X(BLOB_DATA_OFFSET, "CodeBlob", "_data_offset")               \
    X(BLOB_COMPLETE, "CodeBlob", "_frame_complete_offset")        \
    X(BLOB_FRAME, "CodeBlob", "_frame_size")                      \
    X(BLOB_MUTABLE, "CodeBlob", "_mutable_data")                  \
    X(BLOB_RELOCATION, "CodeBlob", "_relocation_size")            \
    X(OLD_METHOD, "CompiledMethod", "_method")                    \
    X(OLD_DEOPT, "CompiledMethod", "_deopt_handler_begin")        \
    X(OLD_DEOPT_MH, "CompiledMethod", "_deopt_mh_handler_begin")  \
    X(OLD_SCOPES_DATA, "CompiledMethod", "_scopes_data_begin")    \
    X(CODE_METHOD, "nmethod", "_method")                          \
    X(CODE_ID, "nmethod", "_compile_id")                          \
    X(CODE_ORIGINAL, "nmethod", "_orig_pc_offset")                \
    X(CODE_DEOPT, "nmethod", "_deopt_handler_offset")             \
    X(CODE_DEOPT_ENTRY, "nmethod", "_deopt_handler_entry_offset") \
    X(CODE_DEOPT_MH, "nmethod", "_deopt_mh_handler_offset")       \
    X(CODE_SCOPES_PCS, "nmethod", "_scopes_pcs_offset")           \
    X(CODE_SCOPES_DATA, "nmethod", "_scopes_data_offset")         \
    X(CODE_METADATA, "nmethod", "_metadata_offset")               \
    X(CODE_IMMUTABLE, "nmethod", "_immutable_data")               \
    X(CODE_DEPENDENCIES, "nmethod", "_dependencies_offset")       \
    X(PC_OFFSET, "PcDesc", "_pc_offset")                          \
    X(PC_SCOPE, "PcDesc", "_scope_decode_offset")                 \
    X(METHOD_CONST, "Method", "_constMethod")                     \
    X(CONST_POOL, "ConstMethod", "_constants")                    \
    X(CONST_CODE, "ConstMethod", "_code_size")                    \
    X(CONST_NAME, "ConstMethod", "_name_index")                   \
    X(CONST_FLAGS, "ConstMethod", "_flags")                       \
    X(CONST_NEW_FLAGS, "ConstMethod", "_flags._flags")            \
    X(POOL_HOLDER, "ConstantPool", "_pool_holder")                \
    X(POOL_FILE, "ConstantPool", "_source_file_name_index")       \
    X(CLASS_FILE, "InstanceKlass", "_source_file_name_index")     \
    X(CLASS_NAME, "Klass", "_name")                               \
    X(SYMBOL_LENGTH, "Symbol", "_length")                         \
    X(SYMBOL_BODY, "Symbol", "_body")                             \
    X(SYMBOL_HASH, "Symbol", "_hash_and_refcount")                \
    X(SYMBOL_REFCOUNT, "Symbol", "_refcount")                     \
    X(INTERPRETER, "AbstractInterpreter", "_code")                \
    X(QUEUE_BUFFER, "StubQueue", "_stub_buffer")                  \
    X(QUEUE_LIMIT, "StubQueue", "_buffer_limit")                  \
    X(CALL_STUB, "StubRoutines", "_call_stub_return_address")     \
    X(RELEASE, "Abstract_VM_Version", "_s_vm_release")            \
    X(MAJOR, "Abstract_VM_Version", "_vm_major_version")

/* Sizes of types. */
#define SIZES(X)                 \
    X(BLOCK_SIZE, "HeapBlock")   \
    X(CONST_SIZE, "ConstMethod") \
    X(POOL_SIZE, "ConstantPool") \
    X(PC_SIZE, "PcDesc")

enum hotspot_field {
#define X(name, type, field) name,
    FIELDS(X)
#undef X
#define X(name, type) name,
        SIZES(X)
#undef X
            FIELDS_N,
};

static const struct {
    const char *type, *field;
} wanted[] = {
#define X(name, type, field) {type, field},
    FIELDS(X)
#undef X
#define X(name, type) {type, NULL},
        SIZES(X)
#undef X
};

struct hotspot_tables {
    const struct proc_memory *m;
    uint64_t v[FIELDS_N];
    bool found[FIELDS_N];
    struct hotspot *h;
    uint64_t type_at; /* the last type, and whether a field of it is wanted */
    char type[TEXT];
    bool is_wanted;
};

/* The form of a table's entries. */
struct hotspot_table {
    uint64_t at, stride, type, field, is_static, offset, address;
};

static bool read_text(const struct proc_memory *m, uint64_t at, char *ret, size_t size)
{
    size_t n = size - 1;

    while (n >= 8 && proc_memory_read(m, at, ret, n) < 0) /* it may be at the end of what is mapped */
        n /= 2;
    ret[n < 8 ? 0 : n] = 0;
    return n >= 8;
}

static void take_stub(struct hotspot_tables *t, const char *field, uint64_t address)
{
    struct hotspot *h = t->h;
    uint64_t at;

    if (field[0] != '_' || h->n_stubs == HOTSPOT_STUBS_MAX || !proc_memory_u64(t->m, address, &at) || !at)
        return;
    h->stubs[h->n_stubs].address = at;
    snprintf(h->stubs[h->n_stubs].name, sizeof h->stubs[0].name, "%s", field + 1);
    h->n_stubs++;
}

static void take_type(struct hotspot_tables *t, uint64_t at)
{
    t->type_at = at;
    t->is_wanted = false;
    if (!read_text(t->m, at, t->type, sizeof t->type))
        return;
    for (size_t i = 0; i < FIELDS_N; i++)
        t->is_wanted |= strcmp(wanted[i].type, t->type) == 0;
}

static uint64_t word_at(const uint8_t *p, uint64_t at)
{
    uint64_t v;

    memcpy(&v, p + at, sizeof v);
    return v;
}

static void take_entry(struct hotspot_tables *t, const struct hotspot_table *x, const uint8_t *p)
{
    uint64_t value = word_at(p, x->offset);
    char field[TEXT] = "";

    if (word_at(p, x->type) != t->type_at)
        take_type(t, word_at(p, x->type));
    if (!t->is_wanted)
        return;
    if (x->field != UINT64_MAX) {
        if (!read_text(t->m, word_at(p, x->field), field, sizeof field))
            return;
        if ((uint32_t) word_at(p, x->is_static))
            value = word_at(p, x->address);
        if (strcmp(t->type, "StubRoutines") == 0)
            take_stub(t, field, value);
    }
    for (size_t i = 0; i < FIELDS_N; i++)
        if (!t->found[i] && strcmp(wanted[i].type, t->type) == 0 && (x->field == UINT64_MAX) == !wanted[i].field &&
            (!wanted[i].field || strcmp(wanted[i].field, field) == 0)) {
            t->v[i] = value;
            t->found[i] = true;
        }
}

static bool is_entry(const struct hotspot_table *x)
{
    const uint64_t last = x->stride - 8;

    return x->at && x->stride >= 8 && x->stride <= STRIDE_MAX && x->type <= last && x->offset <= last &&
           (x->field == UINT64_MAX || (x->field <= last && x->is_static <= last && x->address <= last));
}

static int read_table(struct hotspot_tables *t, const struct hotspot_table *x)
{
    uint8_t chunk[CHUNK * STRIDE_MAX];
    uint64_t at = x->at;

    if (!is_entry(x))
        return x->at && x->stride ? -EBADMSG : -EAGAIN;
    for (uint32_t n = 0; n < ENTRIES_MAX; n++, at += x->stride) {
        const uint8_t *p = chunk + n % CHUNK * x->stride;

        if (n % CHUNK == 0 && proc_memory_read(t->m, at, chunk, CHUNK * x->stride) < 0)
            return -EBADMSG;
        if (!word_at(p, x->type))
            return 0;
        take_entry(t, x, p);
    }
    return -EBADMSG;
}

static int read_tables(struct hotspot_tables *t, const struct hotspot_image *image, uint64_t bias)
{
    uint64_t v[HOTSPOT_SYMBOLS_N];
    int r;

    for (size_t i = 0; i < HOTSPOT_SYMBOLS_N; i++)
        if (!proc_memory_u64(t->m, bias + image->at[i], &v[i]))
            return -EFAULT;
    r = read_table(t, &(struct hotspot_table){v[HOTSPOT_TYPES], v[HOTSPOT_TYPE_STRIDE], v[HOTSPOT_TYPE_NAME],
                                              UINT64_MAX, 0, v[HOTSPOT_TYPE_SIZE], 0});
    if (r == 0)
        r = read_table(t, &(struct hotspot_table){v[HOTSPOT_STRUCTS], v[HOTSPOT_STRUCT_STRIDE], v[HOTSPOT_STRUCT_TYPE],
                                                  v[HOTSPOT_STRUCT_FIELD], v[HOTSPOT_STRUCT_STATIC],
                                                  v[HOTSPOT_STRUCT_OFFSET], v[HOTSPOT_STRUCT_ADDRESS]});
    return r;
}

/* --- version --- */
static int read_version(struct hotspot_tables *t, struct hotspot *h, struct err *e)
{
    uint64_t at = 0;
    uint32_t major = 0;

    if (t->found[RELEASE] && proc_memory_u64(t->m, t->v[RELEASE], &at) && at)
        read_text(t->m, at, h->release, sizeof h->release);
    if (!t->found[MAJOR] || proc_memory_read(t->m, t->v[MAJOR], &major, sizeof major) < 0)
        return -EBADMSG;
    if (!major)
        return -EAGAIN;
    h->major = major;
    if (major < HOTSPOT_OLDEST || major > HOTSPOT_NEWEST)
        return err_set(e, -ENOTSUP, "this version of HotSpot (%u) is not known: Java frames of JDK %d to %d are", major,
                       HOTSPOT_OLDEST, HOTSPOT_NEWEST);
    return 0;
}

/* --- layout --- */
/* Takes the first field that there is; 0: none. */
static bool take(const struct hotspot_tables *t, uint16_t *ret, uint32_t most, enum hotspot_field a,
                 enum hotspot_field b)
{
    enum hotspot_field i = t->found[a] ? a : b;

    if (!t->found[i] || t->v[i] >= most)
        return false;
    *ret = (uint16_t) t->v[i];
    return true;
}

static bool take_blobs(const struct hotspot_tables *t, struct agent_hotspot *at)
{
    enum { MOST = HOTSPOT_BLOB_BYTES - 8 };

    at->is_relative = !t->found[BLOB_BEGIN];
    if (t->found[BLOB_KIND] && !take(t, &at->blob_kind, MOST, BLOB_KIND, BLOB_KIND))
        return false;
    return take(t, &at->blob_name, MOST, BLOB_NAME, BLOB_NAME) &&
           take(t, &at->blob_begin, MOST, BLOB_BEGIN, BLOB_CODE_OFFSET) &&
           take(t, &at->blob_end, MOST, BLOB_END, BLOB_DATA_OFFSET) &&
           take(t, &at->blob_complete, MOST, BLOB_COMPLETE, BLOB_COMPLETE) &&
           take(t, &at->blob_frame, MOST, BLOB_FRAME, BLOB_FRAME) &&
           take(t, &at->code_method, MOST, CODE_METHOD, OLD_METHOD) && take(t, &at->code_id, MOST, CODE_ID, CODE_ID) &&
           take(t, &at->code_original, MOST, CODE_ORIGINAL, CODE_ORIGINAL) &&
           take(t, &at->code_deopt, MOST, at->is_relative ? CODE_DEOPT : OLD_DEOPT, CODE_DEOPT_ENTRY) &&
           at->blob_name % 8 == 0 && at->code_method % 8 == 0;
}

static bool take_methods(const struct hotspot_tables *t, struct hotspot *h)
{
    struct agent_hotspot *at = &h->at;

    return take(t, &at->method_const, OFFSET_MAX, METHOD_CONST, METHOD_CONST) &&
           take(t, &at->const_pool, 57, CONST_POOL, CONST_POOL) &&
           take(t, &at->const_code, 63, CONST_CODE, CONST_CODE) &&
           take(t, &at->const_name, 63, CONST_NAME, CONST_NAME) &&
           take(t, &at->const_size, OFFSET_MAX, CONST_SIZE, CONST_SIZE) &&
           take(t, &at->pool_holder, OFFSET_MAX, POOL_HOLDER, POOL_HOLDER) &&
           take(t, &at->pool_size, OFFSET_MAX, POOL_SIZE, POOL_SIZE) &&
           take(t, &at->class_name, OFFSET_MAX, CLASS_NAME, CLASS_NAME) &&
           take(t, &h->symbol_body, 16, SYMBOL_BODY, SYMBOL_BODY) && t->found[SYMBOL_LENGTH] &&
           t->v[SYMBOL_LENGTH] <= 6 && at->const_pool % 8 == 0 && at->const_code % 2 == 0 && at->const_name % 2 == 0;
}

/* Lines and inlined calls: without these, frames have only the names of their methods. */
static void take_scopes(const struct hotspot_tables *t, struct hotspot *h)
{
    take(t, &h->pool_file, OFFSET_MAX, POOL_FILE, POOL_FILE);
    take(t, &h->class_file, OFFSET_MAX, CLASS_FILE, CLASS_FILE);
    take(t, &h->method_lines, 63, CONST_FLAGS, CONST_NEW_FLAGS);
    h->has_scopes = take(t, &h->scopes_pcs, HOTSPOT_BLOB_BYTES - 8, CODE_SCOPES_PCS, CODE_SCOPES_PCS) &&
                    take(t, &h->scopes_data, HOTSPOT_BLOB_BYTES - 8, CODE_SCOPES_DATA, OLD_SCOPES_DATA) &&
                    t->found[PC_OFFSET] && t->v[PC_OFFSET] == 0 && take(t, &h->pc_scope, 61, PC_SCOPE, PC_SCOPE) &&
                    take(t, &h->pc_bytes, 64, PC_SIZE, PC_SIZE) && h->pc_bytes >= h->pc_scope + 4 &&
                    (take(t, &h->immutable, HOTSPOT_BLOB_BYTES - 8, CODE_IMMUTABLE, CODE_IMMUTABLE) ||
                     take(t, &h->pcs_end, HOTSPOT_BLOB_BYTES - 8, CODE_DEPENDENCIES, CODE_DEPENDENCIES));
    if (take(t, &h->mutable_data, HOTSPOT_BLOB_BYTES - 8, BLOB_MUTABLE, BLOB_MUTABLE) &&
        take(t, &h->relocation, HOTSPOT_BLOB_BYTES - 8, BLOB_RELOCATION, BLOB_RELOCATION))
        h->metadata_kind = HOTSPOT_METADATA_MUTABLE;
    else if (!h->immutable && take(t, &h->metadata, HOTSPOT_BLOB_BYTES - 8, CODE_METADATA, CODE_METADATA))
        h->metadata_kind = HOTSPOT_METADATA_IN_BLOB;
}

static bool take_layout(const struct hotspot_tables *t, struct hotspot *h)
{
    struct agent_hotspot *at = &h->at;
    uint16_t mh = 0;

    if (!take_blobs(t, at) || !take_methods(t, h) || !t->found[BLOCK_SIZE] || t->v[BLOCK_SIZE] > 64)
        return false;
    at->code_deopt_mh = at->code_deopt;
    if (take(t, &mh, HOTSPOT_BLOB_BYTES - 8, CODE_DEOPT_MH, OLD_DEOPT_MH))
        at->code_deopt_mh = mh;
    at->block_bytes = (uint8_t) t->v[BLOCK_SIZE];
    at->symbol_length = (uint8_t) t->v[SYMBOL_LENGTH];
    at->symbol_mask = ~0xffffull; /* the count of references is in the lower half of _hash_and_refcount */
    if (t->found[SYMBOL_REFCOUNT] && !t->found[SYMBOL_HASH])
        at->symbol_mask = ~(0xffffull << (t->v[SYMBOL_REFCOUNT] & 7) * 8);
    take_scopes(t, h);
    return true;
}

/* --- code --- */
static bool read_word(const struct hotspot_tables *t, uint64_t at, __u64 *ret)
{
    return proc_memory_read(t->m, at, ret, sizeof *ret) >= 0;
}

static int read_heap(const struct hotspot_tables *t, uint64_t heap, struct agent_hotspot *at, uint32_t i)
{
    uint32_t shift = 0;

    if (!read_word(t, heap + t->v[HEAP_MEMORY] + t->v[SPACE_LOW], &at->heaps[i].lo) ||
        !read_word(t, heap + t->v[HEAP_MEMORY] + t->v[SPACE_HIGH], &at->heaps[i].hi) ||
        !read_word(t, heap + t->v[HEAP_SEGMAP] + t->v[SPACE_LOW], &at->heaps[i].segments) ||
        proc_memory_read(t->m, heap + t->v[HEAP_SHIFT], &shift, sizeof shift) < 0)
        return -EFAULT;
    if (!at->heaps[i].lo || at->heaps[i].hi <= at->heaps[i].lo || !at->heaps[i].segments)
        return -EAGAIN;
    if (shift < 4 || shift > 16)
        return -EBADMSG;
    at->segment_shift = (uint8_t) shift;
    return 0;
}

static int read_heaps(const struct hotspot_tables *t, struct agent_hotspot *at)
{
    static const enum hotspot_field fields[] = {HEAPS,      ARRAY_DATA, HEAP_MEMORY, HEAP_SEGMAP,
                                                HEAP_SHIFT, SPACE_LOW,  SPACE_HIGH};
    uint64_t array = 0, data = 0, len_at = t->found[ARRAY_LEN] ? t->v[ARRAY_LEN] : t->v[OLD_ARRAY_LEN], heap;
    uint32_t n = 0;
    int r = 0;

    for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
        if (!t->found[fields[i]])
            return -EBADMSG;
    if (!proc_memory_u64(t->m, t->v[HEAPS], &array) || !array)
        return -EAGAIN;
    if (proc_memory_read(t->m, array + len_at, &n, sizeof n) < 0 ||
        !proc_memory_u64(t->m, array + t->v[ARRAY_DATA], &data))
        return -EFAULT;
    if (!n)
        return -EAGAIN;
    if (n > HOTSPOT_HEAPS)
        return -EBADMSG;
    for (uint32_t i = 0; i < n && r == 0; i++)
        r = proc_memory_u64(t->m, data + 8 * (uint64_t) i, &heap) ? read_heap(t, heap, at, i) : -EFAULT;
    return r;
}

static int read_interpreter(const struct hotspot_tables *t, struct agent_hotspot *at)
{
    uint64_t queue = 0;

    if (!t->found[INTERPRETER] || !t->found[QUEUE_BUFFER] || !t->found[QUEUE_LIMIT])
        return -EBADMSG;
    if (!proc_memory_u64(t->m, t->v[INTERPRETER], &queue) || !queue)
        return -EAGAIN;
    if (!read_word(t, queue + t->v[QUEUE_BUFFER], &at->interpreter) ||
        proc_memory_read(t->m, queue + t->v[QUEUE_LIMIT], &at->interpreter_size, sizeof at->interpreter_size) < 0)
        return -EFAULT;
    return at->interpreter && at->interpreter_size ? 0 : -EAGAIN;
}

static int by_address(const void *a, const void *b)
{
    const struct hotspot_stub_name *x = a, *y = b;

    return x->address < y->address ? -1 : x->address > y->address;
}

int hotspot_read(const struct hotspot_image *image, uint64_t bias, const struct proc_memory *m, struct hotspot *ret,
                 struct err *e)
{
    struct hotspot_tables t = {.m = m, .h = ret};
    int r;

    *ret = (struct hotspot){.major = 0};
    r = read_tables(&t, image, bias);
    if (r == 0)
        r = read_version(&t, ret, e);
    if (r == 0 && !take_layout(&t, ret))
        r = err_set(e, -ENOTSUP, "HotSpot %s has an unknown layout: Java frames cannot be shown", ret->release);
    if (r == 0)
        r = read_heaps(&t, &ret->at);
    if (r == 0)
        r = read_interpreter(&t, &ret->at);
    if (r < 0)
        return r;
    if (t.found[CALL_STUB])
        proc_memory_u64(m, t.v[CALL_STUB], &ret->call_stub);
    qsort(ret->stubs, ret->n_stubs, sizeof ret->stubs[0], by_address);
    return 0;
}
