/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code objects and the strings in them: see python.h. An object begins with
 *
 *   count of references, 64 bits, of which bits 32 to 47 are 0; type
 *   in builds without the GIL: 12 bytes, count of the owning thread (32 bits), shared count << 2, type
 *
 * A freed one has a count of 0, or the allocator's pointer to the next free one there. A str is
 *
 *   length, hash, state (32 bits), then the characters when it is ASCII, or 16 bytes more and the characters, of 1, 2 or 4
 *   bytes each. state: interned 2 bits (8 in builds without the GIL), kind 3, compact 1, ascii 1; what follows may be
 *   anything.
 */
#include <errno.h>

#include "agent/lang/python/python.h"
#include "agent/lang/python/python_abi.h"
#include "agent/lang/python/python_lines.h"
#include "base/utf8.h"

enum { CODE_BYTES = 256, HEAD_BYTES = 128 };

struct text_form {
    unsigned kind; /* bytes of a character */
    bool ascii;
};

static bool form_of(const struct python_offsets *at, uint32_t state, struct text_form *ret)
{
    state >>= at->str_kind;
    *ret = (struct text_form){state & 7, state >> 4 & 1};
    return (ret->kind == 1 || ret->kind == 2 || ret->kind == 4) && state >> 3 & 1 && (!ret->ascii || ret->kind == 1);
}

/* Surrogates and numbers beyond Unicode have no UTF-8. */
static struct str to_utf8(const uint8_t *p, size_t n, unsigned kind, struct arena *a)
{
    char *out = arena_alloc(a, n * 4 + 1);
    size_t done = 0;

    for (size_t i = 0; out && i < n; i++) {
        uint32_t c = 0;

        memcpy(&c, p + i * kind, kind);
        if ((c >= 0xd800 && c < 0xe000) || c > 0x10ffff)
            c = 0xfffd;
        done = (size_t) (utf8_write(out + done, c) - out);
    }
    if (!out)
        return (struct str){0};
    arena_trim(a, out, n * 4 + 1, done + 1);
    out[done] = 0;
    return (struct str){out, (uint32_t) done};
}

static uint64_t word(const uint8_t *b, size_t at)
{
    uint64_t v = 0;

    memcpy(&v, b + at, sizeof v);
    return v;
}

/* Whether these are the first bytes of an object that exists. type: 0 if it is not known. */
static bool is_object(const struct python_offsets *at, const uint8_t *head, uint64_t type)
{
    size_t type_at = at->str_length - 8u; /* of every object: a str's length is after it */
    uint32_t own;
    bool has_references;

    memcpy(&own, head + (type_at > 8 ? 12 : 0), sizeof own);
    if (type_at > 8)
        has_references = own || word(head, 16) >> 2;
    else
        has_references = own && !(word(head, 0) >> 32 & 0xffff);
    return has_references && (!type || word(head, type_at) == type);
}

/* Reads the first n bytes of an object. */
static int read_head(const struct python_offsets *at, const struct proc_memory *m, uint64_t address, size_t n,
                     uint64_t type, uint8_t ret[HEAD_BYTES])
{
    if (!address || address & 7 || n > HEAD_BYTES || proc_memory_read(m, address, ret, n) < 0)
        return -EBADMSG;
    return is_object(at, ret, type) ? 0 : -EBADMSG;
}

/* Where the characters are, from the head of a str: their address, number, and form. */
static int find_text(const struct python_offsets *at, const uint8_t *head, uint64_t address, struct text_form *ret_form,
                     uint64_t *ret_at, uint64_t *ret_n)
{
    uint32_t state;

    memcpy(&state, head + at->str_state, sizeof state);
    *ret_n = word(head, at->str_length);
    if (!form_of(at, state, ret_form) || *ret_n > 1u << 24)
        return -EBADMSG;
    *ret_at = address + (ret_form->ascii ? at->str_ascii : at->str_compact);
    return 0;
}

static int read_text(const struct python *py, const struct proc_memory *m, uint64_t address, struct arena *a,
                     struct str *ret)
{
    uint8_t raw[PYTHON_STRING_MAX * 4], head[HEAD_BYTES];
    struct text_form form = {0};
    uint64_t from = 0, n = 0;
    int r = read_head(&py->at, m, address, py->at.str_ascii, py->types.str, head);

    if (r == 0)
        r = find_text(&py->at, head, address, &form, &from, &n);
    if (r < 0)
        return r;
    n = MIN(n, (uint64_t) PYTHON_STRING_MAX);
    if (n && proc_memory_read(m, from, raw, n * form.kind) < 0)
        return -EBADMSG;
    *ret = to_utf8(raw, n, form.kind, a);
    return ret->p ? 0 : -ENOMEM;
}

static int read_bytes(const struct python *py, const struct proc_memory *m, uint64_t address, struct arena *a,
                      struct str *ret)
{
    uint8_t head[HEAD_BYTES];
    uint64_t n;
    char *p;
    int r = read_head(&py->at, m, address, py->at.bytes_data, py->types.bytes, head);

    if (r < 0)
        return r;
    n = word(head, py->at.bytes_size);
    if (n > PYTHON_TABLE_MAX)
        return -EBADMSG;
    p = arena_alloc(a, n + 1);
    if (!p)
        return -ENOMEM;
    if (n && proc_memory_read(m, address + py->at.bytes_data, p, n) < 0)
        return -EBADMSG;
    *ret = (struct str){p, (uint32_t) n};
    return 0;
}

static size_t code_bytes(const struct python *py)
{
    return py->at.minor >= 11 ? 184 : 144;
}

static uint16_t name_at(const struct python_offsets *at)
{
    return at->code_qualname != PYTHON_NONE ? at->code_qualname : at->code_name;
}

int python_code_read(const struct python *py, const struct proc_memory *m, uint64_t code, struct arena *a,
                     struct python_code *ret)
{
    const struct python_offsets *at = &py->at;
    uint8_t b[CODE_BYTES] = {0};
    int r;

    *ret = (struct python_code){0};
    if (!code || code & 7 || proc_memory_read(m, code, b, code_bytes(py)) < 0 || !is_object(at, b, py->types.code))
        return -EBADMSG;
    memcpy(&ret->first_line, b + at->code_firstline, sizeof ret->first_line);
    r = read_text(py, m, word(b, name_at(at)), a, &ret->name);
    if (r == 0)
        r = read_text(py, m, word(b, at->code_filename), a, &ret->filename);
    return r == 0 ? read_bytes(py, m, word(b, at->code_linetable), a, &ret->linetable) : r;
}

/* --- the content of a code object: as in python.bpf.h --- */
static uint64_t text_content(const struct python *py, const struct proc_memory *m, uint64_t hash, uint64_t address,
                             bool is_bytes)
{
    uint64_t v[AGENT_PYTHON_TEXT / 8] = {0}, from = address + py->at.bytes_data, n;
    uint32_t state = 0;

    if (!proc_memory_u64(m, address + (is_bytes ? py->at.bytes_size : py->at.str_length), &n))
        return hash;
    if (!is_bytes) {
        if (proc_memory_read(m, address + py->at.str_state, &state, sizeof state) < 0)
            return hash;
        state >>= py->at.str_kind;
        n *= state & 7;
        from = address + (state >> 4 & 1 ? py->at.str_ascii : py->at.str_compact);
    }
    hash = agent_hash_step(hash, n);
    if (n > sizeof v) {
        from += n - sizeof v;
        n = sizeof v;
    }
    if (n && proc_memory_read(m, from, v, n) < 0)
        memset(v, 0, sizeof v);
    for (size_t i = 0; i < ARRAY_SIZE(v); i++)
        hash = agent_hash_step(hash, v[i]);
    return hash;
}

uint64_t python_content(const struct python *py, const struct proc_memory *m, uint64_t code)
{
    uint8_t b[AGENT_PYTHON_CONTENT];
    struct agent_python record;
    uint64_t hash = 0;

    python_record(py, &record);
    if (proc_memory_read(m, code + record.content, b, sizeof b) < 0)
        return 0;
    for (size_t i = 0; i < record.content_bytes; i += 8)
        hash = agent_hash_step(hash, word(b, i));
    if (record.has_version)
        return hash;
    hash = text_content(py, m, hash, word(b, record.code_name - record.content), false);
    hash = text_content(py, m, hash, word(b, record.code_filename - record.content), false);
    return text_content(py, m, hash, word(b, record.code_linetable - record.content), true);
}

bool python_is_internal(const struct python *py, const struct proc_memory *m, uint64_t code)
{
    uint64_t name, file;

    return py->at.minor >= 13 && proc_memory_u64(m, code + py->at.code_qualname, &name) &&
           proc_memory_u64(m, code + py->at.code_filename, &file) && name == file;
}

int python_code_read_if(const struct python *py, const struct proc_memory *m, uint64_t code, uint64_t content,
                        struct arena *a, struct python_code *ret)
{
    int r;

    if (!content || python_content(py, m, code) != content)
        return -EBADMSG;
    r = python_code_read(py, m, code, a, ret);
    return r < 0 || python_content(py, m, code) == content ? r : -EBADMSG;
}

void python_record(const struct python *py, struct agent_python *ret)
{
    const struct python_offsets *at = &py->at;
    uint16_t content = at->code_firstline & ~7u;

    *ret = (struct agent_python){
        .interpreters = py->runtime + at->interpreters_head,
        .minor = at->minor,
        .interp_next = at->interp_next,
        .interp_threads = at->interp_threads,
        .thread_next = at->thread_next,
        .thread_id = at->thread_id,
        .thread_frame = at->thread_frame,
        .cframe_frame = at->cframe_frame,
        .frame_previous = at->frame_previous,
        .frame_code = at->frame_code,
        .frame_instr = at->frame_instr,
        .frame_owner = at->frame_owner,
        .frame_entry = at->frame_entry,
        .code_name = name_at(at),
        .code_filename = at->code_filename,
        .code_linetable = at->code_linetable,
        .code_start = at->code_start,
        .code_bytes = (uint16_t) code_bytes(py),
        .content = content,
        .content_bytes = (uint16_t) (at->code_linetable + 8 - content),
        .has_version = at->minor >= 12,
        .str_length = at->str_length,
        .str_state = at->str_state,
        .str_kind = at->str_kind,
        .str_ascii = at->str_ascii,
        .str_compact = at->str_compact,
        .bytes_size = at->bytes_size,
        .bytes_data = at->bytes_data,
    };
}

int64_t python_code_line(const struct python *py, const struct python_code *c, int64_t instr)
{
    return python_line(py->at.minor, c->linetable, c->first_line, instr);
}
