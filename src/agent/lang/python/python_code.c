/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code objects and the strings in them: see python.h. A str is
 *
 *   length, hash, state (32 bits), then the characters when it is ASCII, or 16 bytes more and the characters, of 1, 2 or 4
 *   bytes each. state: interned 2 bits (8 in builds without the GIL), kind 3, compact 1, ascii 1; what follows may be
 *   anything.
 */
#include <errno.h>

#include "agent/lang/python/python.h"
#include "agent/lang/python/python_lines.h"
#include "base/utf8.h"

enum { CODE_BYTES = 256 };

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

static int read_text(const struct python_offsets *at, const struct proc_memory *m, uint64_t address, struct arena *a,
                     struct str *ret)
{
    uint8_t raw[PYTHON_STRING_MAX * 4];
    struct text_form form;
    uint32_t state;
    uint64_t n;
    int r;

    if (!address || address & 7 || !proc_memory_u64(m, address + at->str_length, &n) ||
        proc_memory_read(m, address + at->str_state, &state, sizeof state) < 0)
        return -EBADMSG;
    if (!form_of(at, state, &form) || n > 1u << 24)
        return -EBADMSG;
    n = MIN(n, (uint64_t) PYTHON_STRING_MAX);
    r = n ? proc_memory_read(m, address + (form.ascii ? at->str_ascii : at->str_compact), raw, n * form.kind) : 0;
    if (r < 0)
        return -EBADMSG;
    *ret = to_utf8(raw, n, form.kind, a);
    return ret->p ? 0 : -ENOMEM;
}

static int read_bytes(const struct python_offsets *at, const struct proc_memory *m, uint64_t address, struct arena *a,
                      struct str *ret)
{
    uint64_t n;
    char *p;

    if (!address || address & 7 || !proc_memory_u64(m, address + at->bytes_size, &n) || n > PYTHON_TABLE_MAX)
        return -EBADMSG;
    p = arena_alloc(a, n + 1);
    if (!p)
        return -ENOMEM;
    if (n && proc_memory_read(m, address + at->bytes_data, p, n) < 0)
        return -EBADMSG;
    *ret = (struct str){p, (uint32_t) n};
    return 0;
}

static uint64_t word(const uint8_t *b, uint16_t at)
{
    uint64_t v = 0;

    if (at <= CODE_BYTES - 8)
        memcpy(&v, b + at, sizeof v);
    return v;
}

int python_code_read(const struct python *py, const struct proc_memory *m, uint64_t code, struct arena *a,
                     struct python_code *ret)
{
    const struct python_offsets *at = &py->at;
    uint8_t b[CODE_BYTES] = {0};
    int r;

    *ret = (struct python_code){0};
    if (!code || code & 7 || proc_memory_read(m, code, b, at->minor >= 11 ? 184 : 144) < 0)
        return -EBADMSG;
    r = read_text(at, m, word(b, at->code_name), a, &ret->name);
    if (r == 0)
        r = read_text(at, m, word(b, at->code_filename), a, &ret->filename);
    if (r < 0)
        return r;
    ret->qualname = ret->name;
    if (at->code_qualname != PYTHON_NONE && read_text(at, m, word(b, at->code_qualname), a, &ret->qualname) == -ENOMEM)
        return -ENOMEM;
    if (!ret->qualname.n)
        ret->qualname = ret->name;
    if (at->code_firstline <= CODE_BYTES - 4)
        memcpy(&ret->first_line, b + at->code_firstline, sizeof ret->first_line);
    return read_bytes(at, m, word(b, at->code_linetable), a, &ret->linetable) == -ENOMEM ? -ENOMEM : 0;
}

int64_t python_code_line(const struct python *py, const struct python_code *c, int64_t instr)
{
    return python_line(py->at.minor, c->linetable, c->first_line, instr);
}
