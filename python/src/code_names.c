/* SPDX-License-Identifier: Apache-2.0 */
/* The table of code objects' names (code_names.h). Entries and texts are only added: an index is taken by an atomic
 * addition, and published by storing it into an empty slot of the hash table. Two handlers that meet the same new code at
 * the same time may add it twice, which wastes an entry. */
#include "code_names.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "agent/lang/python/python_lines.h"
#include "base/hash.h"
#include "cpython_layout.h"

enum {
    ENTRIES_MAX = 1 << 16,
    SLOTS = ENTRIES_MAX * 2,
    PROBES = 64,
    TEXTS_MAX = 16 << 20,
    NAME_MAX_ = 256,
    FILE_MAX_ = 1024,
    LINES_MAX = 1 << 16, /* bytes of a line table that are copied of another thread */
    LINE_BITS = 24,
    LINE_CACHE = 4096,
};

struct entry {
    uint64_t hash;
    uint32_t function, file; /* offsets in texts */
    int32_t first_line;
};

static struct {
    struct entry *entries; /* [0] is for code that found no room */
    _Atomic uint32_t *slots;
    char *texts;
    _Atomic uint32_t n_entries, n_texts;
} table;

/* (hash of code, line table and instruction) << LINE_BITS | line */
static _Atomic uint64_t line_cache[LINE_CACHE];

static void *map(size_t n)
{
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return p == MAP_FAILED ? NULL : p;
}

static uint32_t add_text(const char *s, uint32_t n)
{
    uint32_t at = atomic_load(&table.n_texts);

    if (at + n + 1 > TEXTS_MAX || (at = atomic_fetch_add(&table.n_texts, n + 1)) + n + 1 > TEXTS_MAX)
        return 0;
    memcpy(table.texts + at, s, n);
    return at;
}

int code_names_start(void)
{
    static const char full[] = "[python: too many functions]";

    if (table.entries)
        return 0;
    table.slots = map(SLOTS * sizeof *table.slots);
    table.texts = map(TEXTS_MAX);
    table.entries = map(ENTRIES_MAX * sizeof *table.entries);
    if (!table.slots || !table.texts || !table.entries)
        return -1;
    atomic_store(&table.n_texts, 1);
    table.entries[0].function = add_text(full, sizeof full - 1);
    atomic_store(&table.n_entries, 1);
    return 0;
}

/* --- reading objects --- */
static uint32_t put_utf8(uint32_t c, char *to)
{
    if (c < 0x80) {
        to[0] = (char) c;
        return 1;
    }
    if (c < 0x800) {
        to[0] = (char) (0xc0 | c >> 6);
        to[1] = (char) (0x80 | (c & 63));
        return 2;
    }
    if (c < 0x10000) {
        if (c >= 0xd800 && c < 0xe000) /* a lone surrogate: a file name that is not UTF-8 */
            c = 0xfffd;
        to[0] = (char) (0xe0 | c >> 12);
        to[1] = (char) (0x80 | (c >> 6 & 63));
        to[2] = (char) (0x80 | (c & 63));
        return 3;
    }
    to[0] = (char) (0xf0 | (c >> 18 & 7));
    to[1] = (char) (0x80 | (c >> 12 & 63));
    to[2] = (char) (0x80 | (c >> 6 & 63));
    to[3] = (char) (0x80 | (c & 63));
    return 4;
}

static uint32_t text_of_kind(struct peek *p, uint64_t data, uint32_t kind, uint32_t length, char *to, uint32_t size)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < length && n + 5 < size; i++) {
        uint32_t c = 0;

        if (!peek_copy(p, data + (uint64_t) i * kind, &c, kind))
            return 0;
        n += put_utf8(c, to + n);
    }
    to[n] = 0;
    return n;
}

uint32_t code_names_text(struct peek *p, uint64_t object, char *to, uint32_t size)
{
    PyASCIIObject s;
    uint32_t n;

    if (!peek_copy(p, object, &s, sizeof s) || s.ob_base.ob_type != &PyUnicode_Type || !s.state.compact || s.length < 0)
        return 0;
    n = s.length < (Py_ssize_t) size ? (uint32_t) s.length : size - 1;
    if (!s.state.ascii)
        return s.state.kind == 1 || s.state.kind == 2 || s.state.kind == 4
                   ? text_of_kind(p, object + sizeof(PyCompactUnicodeObject), s.state.kind, n, to, size)
                   : 0;
    if (!peek_copy(p, object + sizeof s, to, n))
        return 0;
    to[n] = 0;
    return n;
}

/* --- entries --- */
static bool is_entry(const struct entry *e, uint64_t hash, const char *function, const char *file, int32_t first_line)
{
    return e->hash == hash && e->first_line == first_line && strcmp(table.texts + e->function, function) == 0 &&
           strcmp(table.texts + e->file, file) == 0;
}

static uint32_t new_entry(uint64_t hash, struct str function, struct str file, int32_t first_line)
{
    uint32_t i = atomic_load(&table.n_entries);
    struct entry *e;

    if (i >= ENTRIES_MAX || (i = atomic_fetch_add(&table.n_entries, 1)) >= ENTRIES_MAX)
        return 0;
    e = &table.entries[i];
    e->hash = hash;
    e->first_line = first_line;
    e->function = add_text(function.p, function.n);
    e->file = add_text(file.p, file.n);
    return e->function ? i : 0;
}

/* The entry for these contents; 0 if there is no room. */
static uint32_t find_entry(struct str function, struct str file, int32_t first_line)
{
    uint64_t hash = hash_mix(hash64(function.p, function.n), hash64(file.p, file.n) ^ (uint32_t) first_line);
    uint32_t added = 0;

    for (uint32_t k = 0; k < PROBES; k++) {
        _Atomic uint32_t *slot = &table.slots[(hash + k) % SLOTS];
        uint32_t i = atomic_load_explicit(slot, memory_order_acquire);

        if (!i) {
            if (!added && !(added = new_entry(hash, function, file, first_line)))
                return 0;
            if (atomic_compare_exchange_strong(slot, &i, added))
                return added;
        }
        if (is_entry(&table.entries[i], hash, function.p, file.p, first_line))
            return i;
    }
    return 0;
}

/* --- lines --- */
static uint32_t decode_line(struct peek *p, uint64_t bytes, int32_t first_line, int64_t instr)
{
    static char copy[LINES_MAX]; /* only wick's own thread copies */
    PyVarObject head;
    uint64_t data = bytes + offsetof(PyBytesObject, ob_sval);
    struct str lines = {0};
    int64_t line;
    uint8_t last;

    if (!peek_copy(p, bytes, &head, sizeof head) || head.ob_base.ob_type != &PyBytes_Type || head.ob_size < 0 ||
        head.ob_size > 64 << 20)
        return 0;
    lines.n = (uint32_t) head.ob_size;
    if (p->other) {
        lines.n = lines.n < sizeof copy ? lines.n : (uint32_t) sizeof copy;
        lines.p = copy;
        if (!peek_copy(p, data, copy, lines.n))
            return 0;
    } else {
        lines.p = (const char *) (uintptr_t) data;
        for (uint64_t at = data; at < data + lines.n; at += 4096)
            if (!peek_copy(p, at, &last, 1))
                return 0;
        if (lines.n && !peek_copy(p, data + lines.n - 1, &last, 1))
            return 0;
    }
    line = python_line(PY_MINOR, lines, first_line, instr);
    return line > 0 && line < 1 << LINE_BITS ? (uint32_t) line : 0;
}

static uint32_t line_of(struct peek *p, uint64_t code, uint64_t bytes, int32_t first_line, int64_t instr)
{
    uint64_t key = hash_mix(code ^ bytes << 1, (uint64_t) instr ^ (uint64_t) (uint32_t) first_line << 32) >>
                   LINE_BITS << LINE_BITS;
    _Atomic uint64_t *slot = &line_cache[(key >> LINE_BITS) % LINE_CACHE];
    uint64_t word = atomic_load_explicit(slot, memory_order_relaxed);

    if (word >> LINE_BITS != key >> LINE_BITS || !word) {
        word = key | decode_line(p, bytes, first_line, instr);
        atomic_store_explicit(slot, word, memory_order_relaxed);
    }
    return (uint32_t) (word & ((1u << LINE_BITS) - 1));
}

/* --- frames --- */
uint64_t code_names_frame(struct peek *p, uint64_t code, uint64_t instr)
{
    char function[NAME_MAX_], file[FILE_MAX_];
    PyCodeObject c;
    uint32_t function_n, file_n, entry;
    int64_t at;

    if (!code || code & 7 || !peek_copy(p, code, &c, PY_CODE_HEAD) || Py_TYPE(&c) != &PyCode_Type)
        return 0;
    function_n = code_names_text(p, (uint64_t) (uintptr_t) c.PY_CODE_NAME, function, sizeof function);
    if (!function_n)
        return 0;
    file_n = code_names_text(p, (uint64_t) (uintptr_t) c.co_filename, file, sizeof file);
    file[file_n] = 0;
    entry = find_entry((struct str){function, function_n}, (struct str){file, file_n}, c.co_firstlineno);
#if PY_VERSION_HEX >= 0x030b0000
    at = (int64_t) (instr - (code + PY_CODE_HEAD));
#elif PY_VERSION_HEX >= 0x030a0000
    at = (int64_t) instr * 2;
#else
    at = (int64_t) instr;
#endif
    return WICK_EXT_LATE | (uint64_t) entry << LINE_BITS |
           (entry ? line_of(p, code, (uint64_t) (uintptr_t) c.PY_CODE_LINES, c.co_firstlineno, at) : 0);
}

bool code_names_texts(uint64_t frame, const char **ret_function, const char **ret_file)
{
    uint64_t i = (frame & ~(0xffffull << 48)) >> LINE_BITS;

    if ((frame & (0xffffull << 48)) != WICK_EXT_LATE || i >= ENTRIES_MAX)
        return false;
    *ret_function = table.texts + table.entries[i].function;
    *ret_file = table.texts + table.entries[i].file;
    return true;
}

int code_names_namer(uint64_t number, struct wick_ext_frame *ret)
{
    uint64_t i = number >> LINE_BITS;

    if (i >= ENTRIES_MAX || !table.entries[i].function)
        return 0;
    *ret = (struct wick_ext_frame){.function = table.texts + table.entries[i].function,
                                   .file = table.texts + table.entries[i].file,
                                   .kind = "cpython",
                                   .line = (int) (number & ((1u << LINE_BITS) - 1)),
                                   .start_line = table.entries[i].first_line};
    return 1;
}
