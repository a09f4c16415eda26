/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses .gopclntab.
 *
 * Header:  u32 magic | 0 0 | u8 quantum | u8 pointer size | words of pointer size:
 *   1.2   functions;                                                       tables have offsets from the start
 *   1.16  functions, files, then offsets of: names, units, files, pc values, functions
 *   1.18  functions, files, address of text, then the same offsets          (1.20: same, records have a start line)
 * Function table: (entry, offset of record) pairs, of pointers up to 1.16 and of u32 from 1.18 (entry counts from
 * text), then the end of the last function. Record: entry, i32 name, args, deferreturn, u32 pcsp, pcfile, pcln, npcdata,
 * unit, i32 start line (1.20), u8 kind, flags, padding, nfuncdata; npcdata u32 offsets of pc values, nfuncdata u32
 * offsets from go:func.* (1.18).
 * pc values: pairs of varints (value change zigzag, pc change / quantum) from value -1 at the entry; 0 ends.
 * Inlined calls (1.18): pc values number 2 are an index, or -1, into the tree that is funcdata number 3, of entries
 *   1.20: u8 kind, 3 bytes, i32 name, i32 parent (offset in the function of an instruction of the caller), i32 start line
 *   1.18: i16, u8 kind, 1 byte, i32 file, i32 line, i32 name, i32 parent
 */
#include "elf/pclntab.h"

#include <errno.h>

#include "base/bytes.h"
#include "elf/go_module.h"

static bool u32_at(struct elf_bytes b, uint64_t at, uint32_t *ret)
{
    if (b.n < 4 || at > b.n - 4)
        return false;
    memcpy(ret, b.p + at, 4);
    return true;
}

static bool word_at(const struct pclntab *t, struct elf_bytes b, uint64_t at, uint64_t *ret)
{
    uint32_t half;

    if (t->pointer_size == 4) {
        if (!u32_at(b, at, &half))
            return false;
        *ret = half;
        return true;
    }
    if (b.n < 8 || at > b.n - 8)
        return false;
    memcpy(ret, b.p + at, 8);
    return true;
}

static struct str string_at(struct elf_bytes b, uint64_t at)
{
    if (at >= b.n)
        return STR("");
    return (struct str){(const char *) b.p + at, (uint32_t) strnlen((const char *) b.p + at, MIN(b.n - at, 1u << 16))};
}

static bool part(const struct pclntab *t, unsigned word, struct elf_bytes *ret)
{
    uint64_t at;

    if (!word_at(t, t->data, 8 + (uint64_t) word * t->pointer_size, &at) || at > t->data.n)
        return false;
    *ret = (struct elf_bytes){t->data.p + at, t->data.n - at, 0};
    return true;
}

static bool read_parts(struct pclntab *t)
{
    unsigned first = t->version == PCLNTAB_1_16 ? 2 : 3;

    return part(t, first, &t->names) && part(t, first + 1, &t->units) && part(t, first + 2, &t->files) &&
           part(t, first + 3, &t->pc_values) && part(t, first + 4, &t->functions);
}

/* 1.2: the function table follows the count; the word after it is the offset of the file table. */
static bool read_old_parts(struct pclntab *t)
{
    uint64_t start = 8 + t->pointer_size, size = ((uint64_t) t->n_functions * 2 + 1) * t->pointer_size;
    uint32_t files;

    if (!u32_at(t->data, start + size, &files) || files > t->data.n)
        return false;
    t->names = t->pc_values = t->data;
    t->functions = (struct elf_bytes){t->data.p + start, t->data.n - start, 0};
    t->files = (struct elf_bytes){t->data.p + files, t->data.n - files, 0};
    return u32_at(t->files, 0, &t->n_files);
}

static size_t entry_size(const struct pclntab *t)
{
    return t->version >= PCLNTAB_1_18 ? 4 : t->pointer_size;
}

int pclntab_parse(struct elf_bytes data, uint64_t text, struct pclntab *ret, struct err *e)
{
    static const uint32_t magics[] = {0xfffffffb, 0xfffffffa, 0xfffffff0, 0xfffffff1};
    struct pclntab t = {.data = data, .version = PCLNTAB_1_20 + 1};
    uint32_t magic;
    uint64_t n, files = 0, start = 0;

    if (!u32_at(data, 0, &magic) || data.n < 16)
        return err_set(e, -EBADMSG, "the Go line table is truncated");
    for (unsigned i = 0; i < ARRAY_SIZE(magics); i++)
        if (magic == magics[i])
            t.version = (enum pclntab_version) i;
    t.quantum = data.p[6];
    t.pointer_size = data.p[7];
    if (t.version > PCLNTAB_1_20 || !t.quantum || (t.pointer_size != 4 && t.pointer_size != 8))
        return err_set(e, -EBADMSG, "unknown version of the Go line table (magic %08x)", magic);
    word_at(&t, data, 8, &n);
    if (t.version > PCLNTAB_1_2)
        word_at(&t, data, 8 + t.pointer_size, &files);
    if (t.version >= PCLNTAB_1_18)
        word_at(&t, data, 8 + 2 * t.pointer_size, &start);
    if (n > data.n / (2 * entry_size(&t)))
        return err_set(e, -EBADMSG, "the Go line table claims more functions than it has room for");
    t.n_functions = (uint32_t) n;
    t.n_files = (uint32_t) files;
    t.text = start ? start : text;
    if (!(t.version == PCLNTAB_1_2 ? read_old_parts(&t) : read_parts(&t)))
        return err_set(e, -EBADMSG, "the Go line table points outside of itself");
    *ret = t;
    return 0;
}

int pclntab_open(const struct elf_file *f, struct pclntab *ret, struct err *e)
{
    static const char *const names[] = {".gopclntab", ".data.rel.ro.gopclntab"};
    const struct elf_section *text = elf_find_section(f, ".text");

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        struct elf_bytes b = elf_section_bytes(f, names[i]);

        if (b.n) {
            struct go_module m;
            bool found = go_module_find(f, b, &m);
            int r = pclntab_parse(b, found ? m.text : text ? text->address : 0, ret, e);

            if (r >= 0 && found)
                ret->calls = m.calls;
            return r;
        }
    }
    return err_set(e, -ENODATA, "not a Go binary");
}

static bool entry_at(const struct pclntab *t, uint32_t i, uint64_t *ret)
{
    uint32_t offset;

    if (t->version < PCLNTAB_1_18)
        return word_at(t, t->functions, (uint64_t) i * 2 * t->pointer_size, ret);
    if (!u32_at(t->functions, (uint64_t) i * 8, &offset))
        return false;
    *ret = t->text + offset;
    return true;
}

/* A u32 of a function's record, numbered from the one after its entry. */
static bool field_at(const struct pclntab *t, const struct pclntab_function *fn, unsigned field, uint32_t *ret)
{
    struct elf_bytes records = t->version == PCLNTAB_1_2 ? t->data : t->functions;

    return u32_at(records, (uint64_t) fn->at + entry_size(t) + 4 * field, ret);
}

bool pclntab_function(const struct pclntab *t, uint32_t i, struct pclntab_function *ret)
{
    size_t size = entry_size(t);
    uint64_t at = 0;
    uint32_t at32, name;

    if (i >= t->n_functions || !entry_at(t, i, &ret->entry) || !entry_at(t, i + 1, &ret->end))
        return false;
    if (size == 4) {
        if (!u32_at(t->functions, ((uint64_t) i * 2 + 1) * 4, &at32))
            return false;
        at = at32;
    } else if (!word_at(t, t->functions, ((uint64_t) i * 2 + 1) * size, &at)) {
        return false;
    }
    if (at > UINT32_MAX)
        return false;
    ret->at = (uint32_t) at;
    if (!field_at(t, ret, 0, &name))
        return false;
    ret->name = string_at(t->names, name);
    return true;
}

bool pclntab_find(const struct pclntab *t, uint64_t address, struct pclntab_function *ret)
{
    uint32_t low = 0, high = t->n_functions;
    uint64_t entry;

    while (low < high) {
        uint32_t mid = low + (high - low) / 2;

        if (entry_at(t, mid, &entry) && entry <= address)
            low = mid + 1;
        else
            high = mid;
    }
    return low > 0 && pclntab_function(t, low - 1, ret) && address >= ret->entry && address < ret->end;
}

/* Reads the next change of value and the number of pc quanta that it is valid for; false at the end of the table. */
static bool next_step(struct cursor *c, bool first, uint32_t *ret_change, uint32_t *ret_step)
{
    *ret_change = (uint32_t) get_varint(c);
    if (c->bad || (*ret_change == 0 && !first))
        return false;
    *ret_step = (uint32_t) get_varint(c);
    return !c->bad;
}

static int32_t pc_value(const struct pclntab *t, uint32_t at, uint64_t entry, uint64_t address)
{
    struct cursor c;
    uint64_t pc = entry;
    uint32_t value = UINT32_MAX, change, step;

    if (at == 0 || at >= t->pc_values.n)
        return -1;
    c = cursor_of(t->pc_values.p + at, t->pc_values.n - at);
    while (next_step(&c, pc == entry, &change, &step)) {
        value += change & 1 ? ~(change >> 1) : change >> 1;
        pc += (uint64_t) step * t->quantum;
        if (address < pc)
            return (int32_t) value;
        if (step == 0 && change == 0)
            break;
    }
    return -1;
}

static struct str file_name(const struct pclntab *t, const struct pclntab_function *fn, int32_t number)
{
    uint32_t unit, offset;

    if (number < 0)
        return STR("");
    if (t->version == PCLNTAB_1_2) {
        if (number == 0 || (uint32_t) number > t->n_files || !u32_at(t->files, 4 * (uint64_t) number, &offset))
            return STR("");
        return string_at(t->data, offset);
    }
    if (!field_at(t, fn, 7, &unit) || !u32_at(t->units, 4 * ((uint64_t) unit + (uint32_t) number), &offset) ||
        offset == UINT32_MAX)
        return STR("");
    return string_at(t->files, offset);
}

void pclntab_line(const struct pclntab *t, const struct pclntab_function *fn, uint64_t address, struct str *ret_file,
                  int32_t *ret_line)
{
    uint32_t files = 0, lines = 0;
    int32_t line;

    field_at(t, fn, 4, &files);
    field_at(t, fn, 5, &lines);
    *ret_file = file_name(t, fn, pc_value(t, files, fn->entry, address));
    line = pc_value(t, lines, fn->entry, address);
    *ret_line = line;
}

int32_t pclntab_start_line(const struct pclntab *t, const struct pclntab_function *fn)
{
    uint32_t line = 0;

    if (t->version < PCLNTAB_1_20 || !field_at(t, fn, 8, &line) || line > INT32_MAX)
        return 0;
    return (int32_t) line;
}

int pclntab_each_sp(const struct pclntab *t, const struct pclntab_function *fn,
                    int (*f)(void *data, uint64_t start, int32_t value), void *data)
{
    struct cursor c;
    uint64_t pc = fn->entry;
    uint32_t at, value = UINT32_MAX, change, step;
    int r = 0;

    if (!field_at(t, fn, 3, &at) || at == 0 || at >= t->pc_values.n)
        return f(data, fn->entry, 0);
    c = cursor_of(t->pc_values.p + at, t->pc_values.n - at);
    while (r == 0 && pc < fn->end && next_step(&c, pc == fn->entry, &change, &step) && step) {
        value += change & 1 ? ~(change >> 1) : change >> 1;
        r = f(data, pc, (int32_t) value);
        pc += (uint64_t) step * t->quantum;
    }
    return r;
}

static int32_t i32_at(struct elf_bytes b, uint64_t at)
{
    uint32_t v = 0;

    u32_at(b, at, &v);
    return (int32_t) v;
}

/* Where the tree of inlined calls is in t->calls, and the pc values with indices into it. */
static bool find_inlined(const struct pclntab *t, const struct pclntab_function *fn, uint32_t *ret_tree,
                         uint32_t *ret_index)
{
    enum { INDEX = 2, TREE = 3 };                        /* numbers of tables */
    unsigned fixed = t->version < PCLNTAB_1_20 ? 9 : 10; /* u32s of a record */
    uint32_t n_pc, last, n_data;

    if (t->version < PCLNTAB_1_18 || !t->calls.n || !field_at(t, fn, 6, &n_pc) || !field_at(t, fn, fixed - 1, &last))
        return false;
    n_data = last >> 24;
    return n_pc > INDEX && n_pc < 64 && n_data > TREE && field_at(t, fn, fixed + INDEX, ret_index) &&
           field_at(t, fn, fixed + n_pc + TREE, ret_tree) && *ret_tree != UINT32_MAX;
}

/* An entry of the tree of inlined calls. */
struct inlined_call {
    int32_t name, parent, start_line;
};

static bool inlined_at(const struct pclntab *t, uint32_t tree, uint32_t i, struct inlined_call *ret)
{
    bool old = t->version < PCLNTAB_1_20;
    uint64_t size = old ? 20 : 16, at = tree + size * i;

    if (at + size > t->calls.n)
        return false;
    ret->name = i32_at(t->calls, at + (old ? 12 : 4));
    ret->parent = i32_at(t->calls, at + (old ? 16 : 8));
    ret->start_line = old ? 0 : i32_at(t->calls, at + 12);
    return ret->name >= 0;
}

static struct pclntab_frame frame_at(const struct pclntab *t, const struct pclntab_function *fn, uint64_t address,
                                     struct str name, int32_t start_line)
{
    struct pclntab_frame f = {.name = name, .start_line = MAX(start_line, 0)};

    pclntab_line(t, fn, address, &f.file, &f.line);
    f.line = MAX(f.line, 0);
    return f;
}

unsigned pclntab_frames(const struct pclntab *t, const struct pclntab_function *fn, uint64_t address,
                        struct pclntab_frame ret[PCLNTAB_FRAMES_MAX])
{
    uint32_t tree, index;
    unsigned n = 0;

    if (find_inlined(t, fn, &tree, &index))
        while (n < PCLNTAB_FRAMES_MAX - 1) {
            int32_t i = pc_value(t, index, fn->entry, address);
            struct inlined_call call;

            if (i < 0 || !inlined_at(t, tree, (uint32_t) i, &call))
                break;
            ret[n++] = frame_at(t, fn, address, string_at(t->names, (uint32_t) call.name), call.start_line);
            address = fn->entry + (uint32_t) call.parent;
        }
    ret[n++] = frame_at(t, fn, address, fn->name, pclntab_start_line(t, fn));
    return n;
}
