/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiled code of Java methods (hotspot.h). A blob of it has, in itself or
 * beside it,
 *
 *   addresses   PcDesc: offset in the code, where its scope is; ascending; only
 * of calls, polls and checks scopes      numbers: where the scope is that this
 * one is inlined into (0: none), its method, its bytecode + 1 methods pointers,
 * the first is number 1
 *
 * so that one frame becomes several methods. The address of an instruction that
 * was interrupted has the scope of the next address; but that of the address
 * before it, if both are in a loop that ends in between: the poll of an inlined
 * loop is often before its last instructions.
 */
#include <errno.h>
#include <string.h>

#include "agent/lang/hotspot/hotspot.h"
#include "agent/lang/hotspot/hotspot_step.h"
#include "unwind/code_rule.h"

enum { PCS_MAX = 1 << 20, SCOPE_BYTES = 32, METHODS_MAX = 65536, PC_MAX = 64, LOOP_BYTES = 512 };

struct hotspot_compiled {
    const struct hotspot_reader *r;
    uint64_t blob;
    __u64 v[64];
    uint64_t pcs, pcs_end, scopes; /* addresses */
};

static bool read_blob(const struct hotspot_reader *r, uint64_t blob, struct hotspot_compiled *ret)
{
    *ret = (struct hotspot_compiled){.r = r, .blob = blob};
    return blob && blob % 8 == 0 && proc_memory_read(r->m, blob, ret->v, HOTSPOT_BLOB_BYTES) >= 0;
}

uint64_t hotspot_code(const struct hotspot_reader *r, uint64_t blob, uint64_t *ret_method)
{
    struct hotspot_compiled c;

    if (!read_blob(r, blob, &c) || hotspot_kind(r->m, &r->h->at, c.v) != HOTSPOT_IS_NMETHOD)
        return 0;
    *ret_method = hotspot_word(c.v, r->h->at.code_method);
    return hotspot_code_content(hotspot_half(c.v, r->h->at.code_id), *ret_method);
}

static bool find_tables(struct hotspot_compiled *c)
{
    const struct hotspot *h = c->r->h;
    uint64_t base = h->immutable ? hotspot_word(c->v, h->immutable) : c->blob;

    if (!h->has_scopes)
        return false;
    c->pcs = base + hotspot_half(c->v, h->scopes_pcs);
    if (h->immutable) {
        c->scopes = base + hotspot_half(c->v, h->scopes_data);
        c->pcs_end = c->scopes; /* the scopes follow */
    } else {
        c->scopes = hotspot_word(c->v, h->scopes_data);
        c->pcs_end = base + hotspot_half(c->v, h->pcs_end);
    }
    return base && c->pcs_end > c->pcs && c->pcs_end - c->pcs <= (uint64_t) PCS_MAX * h->pc_bytes;
}

static bool read_pc(const struct hotspot_compiled *c, uint64_t i, int32_t *ret_offset, uint32_t *ret_scope)
{
    uint8_t bytes[PC_MAX];

    if (proc_memory_read(c->r->m, c->pcs + i * c->r->h->pc_bytes, bytes, c->r->h->pc_bytes) < 0)
        return false;
    memcpy(ret_offset, bytes, sizeof *ret_offset);
    memcpy(ret_scope, bytes + c->r->h->pc_scope, sizeof *ret_scope);
    return true;
}

/* Where an instruction jumps to; 0: it does not, or not to a fixed place. */
static uint64_t jump_target(const uint8_t *code, size_t n, uint64_t pc)
{
    int32_t far = 0;

    if (n == 2 && (code[0] == 0xeb || (code[0] & 0xf0) == 0x70))
        return pc + n + (uint64_t) (int8_t) code[1];
    if (!(n == 5 && code[0] == 0xe9) && !(n == 6 && code[0] == 0x0f && (code[1] & 0xf0) == 0x80))
        return 0;
    memcpy(&far, code + n - 4, sizeof far);
    return pc + n + (uint64_t) (int64_t) far;
}

/* Whether pc is at the end of a loop in which `before` is, too: from pc on,
 * before `after`, is a jump back to before it. */
static bool is_end_of_loop(const struct hotspot_compiled *c, uint64_t before, uint64_t pc, uint64_t after)
{
    uint8_t code[LOOP_BYTES];
    size_t n = (size_t) MIN(after - pc, (uint64_t) LOOP_BYTES), length;

    if (proc_memory_read(c->r->m, pc, code, n) < 0)
        return false;
    for (size_t at = 0; (length = code_length(code + at, n - at)) > 0; at += length) {
        uint64_t target = jump_target(code + at, length, pc + at);

        if (target && target <= before)
            return true;
        if (code[at] == 0xc3 || code[at] == 0xeb || code[at] == 0xe9)
            return false;
    }
    return false;
}

/* Where the scope of an address is; 0: it has none. */
static uint32_t find_scope(const struct hotspot_compiled *c, uint64_t pc, bool leaf)
{
    uint64_t begin = hotspot_place(&c->r->h->at, c->v, c->blob, c->r->h->at.blob_begin), low = 0;
    uint64_t high = (c->pcs_end - c->pcs) / c->r->h->pc_bytes;
    int64_t want = (int64_t) (pc - begin) + leaf;
    uint32_t scope = 0, scope_before = 0;
    int32_t offset = 0, before = 0;

    while (low < high) { /* the first one that is not before */
        uint64_t middle = (low + high) / 2;

        if (!read_pc(c, middle, &offset, &scope))
            return 0;
        if (offset < want)
            low = middle + 1;
        else
            high = middle;
    }
    if (!read_pc(c, low, &offset, &scope) || offset < want || (!leaf && offset != want))
        return 0;
    if (leaf && low > 0 && read_pc(c, low - 1, &before, &scope_before) && before > 0 && before < want && scope_before &&
        is_end_of_loop(c, begin + (uint64_t) before, pc, begin + (uint64_t) offset))
        return scope_before;
    return offset == INT32_MAX ? 0 : scope;
}

static uint64_t method_of(const struct hotspot_compiled *c, uint32_t number)
{
    const struct hotspot *h = c->r->h;
    uint64_t table, method;

    if (!number || number > METHODS_MAX || h->metadata_kind == HOTSPOT_METADATA_UNKNOWN)
        return 0;
    table = h->metadata_kind == HOTSPOT_METADATA_MUTABLE
                ? hotspot_word(c->v, h->mutable_data) + hotspot_half(c->v, h->relocation)
                : c->blob + hotspot_half(c->v, h->metadata);
    return proc_memory_u64(c->r->m, table + 8 * (uint64_t) (number - 1), &method) ? method : 0;
}

/* Reads the scope at *at, and sets *at to the one that it is inlined into. */
static bool read_scope(const struct hotspot_compiled *c, uint32_t *at, struct hotspot_scope *ret)
{
    const bool no_zero = c->r->h->major >= 20;
    uint8_t bytes[SCOPE_BYTES];
    const uint8_t *p = bytes, *end = bytes + sizeof bytes;
    uint32_t sender, method, bci;

    if (proc_memory_read(c->r->m, c->scopes + *at, bytes, sizeof bytes) < 0 ||
        !hotspot_number(&p, end, no_zero, &sender) || !hotspot_number(&p, end, no_zero, &method) ||
        !hotspot_number(&p, end, no_zero, &bci) || bci > 65536)
        return false;
    *ret = (struct hotspot_scope){method_of(c, method), (int32_t) bci - 1};
    if (sender >= *at && sender) /* what a scope is inlined into comes before it */
        return false;
    *at = sender;
    return true;
}

uint32_t hotspot_scopes(const struct hotspot_reader *r, uint64_t blob, uint64_t pc, bool leaf,
                        struct hotspot_scope ret[HOTSPOT_INLINED_MAX])
{
    struct hotspot_compiled c;
    uint64_t own;
    uint32_t n = 0, at;

    if (!read_blob(r, blob, &c))
        return 0;
    own = hotspot_word(c.v, r->h->at.code_method);
    at = find_tables(&c) ? find_scope(&c, pc, leaf) : 0;
    while (at && n < HOTSPOT_INLINED_MAX && read_scope(&c, &at, &ret[n]))
        n++;
    if (n && n < HOTSPOT_INLINED_MAX && !at && ret[n - 1].method == own) /* the chain ends with the method itself */
        return n;
    ret[0] = (struct hotspot_scope){own, -1};
    return 1;
}

/* --- stubs --- */
static const char *routine_at(const struct hotspot *h, uint64_t blob, uint64_t pc)
{
    const struct hotspot_stub_name *found = NULL;

    for (uint32_t i = 0; i < h->n_stubs && h->stubs[i].address <= pc; i++)
        if (h->stubs[i].address > blob)
            found = &h->stubs[i];
    return found ? found->name : NULL;
}

int hotspot_stub_read(const struct hotspot_reader *r, uint64_t blob, uint64_t pc, uint64_t content, struct arena *a,
                      struct str *ret)
{
    const char *routine;
    char name[64];
    struct hotspot_compiled c;
    size_t n = sizeof name - 1;

    if (!read_blob(r, blob, &c) || (agent_hash_step(0x5354, hotspot_word(c.v, r->h->at.blob_name)) | 1) != content)
        return -EBADMSG;
    while (n >= 8 && proc_memory_read(r->m, hotspot_word(c.v, r->h->at.blob_name), name, n) < 0)
        n /= 2;
    name[n < 8 ? 0 : n] = 0;
    *ret = str_from(name);
    for (uint32_t i = 0; i < ret->n; i++)
        if (name[i] < ' ' || name[i] > '~')
            return -EBADMSG;
    routine = pc == r->h->call_stub                   ? "call_stub"
              : str_starts(*ret, STR("StubRoutines")) ? routine_at(r->h, blob, pc)
                                                      : NULL;
    *ret = routine ? arena_str(a, str_from(routine)) : arena_str(a, *ret);
    return ret->n ? 0 : -EBADMSG;
}
