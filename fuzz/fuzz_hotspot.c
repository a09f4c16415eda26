/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a hostile process, read as HotSpot's: the input is memory at BASE. Its first words are those of a frame; the tables of
 * fields and sizes begin after them. The layout is that of JDK 17, or of JDK 25. */
#include <errno.h>
#include <string.h>

#include "agent/lang/hotspot/hotspot.h"
#include "agent/lang/hotspot/hotspot_step.h"
#include "base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BASE = 0x10000, WORDS = 8 };

struct hotspot_input {
    const uint8_t *p;
    size_t n;
};

static int read_input(const struct proc_memory *m, uint64_t address, void *p, size_t n)
{
    const struct hotspot_input *in = m->data;

    if (address < BASE || address - BASE > in->n || n > in->n - (address - BASE))
        return -EFAULT;
    memcpy(p, in->p + (address - BASE), n);
    return 0;
}

static struct hotspot layout(bool new, size_t size)
{
    struct hotspot h = {.major = 17,
                        .symbol_body = 6,
                        .pool_file = 54,
                        .method_lines = 28,
                        .pc_bytes = 16,
                        .pc_scope = 4,
                        .scopes_pcs = 268,
                        .pcs_end = 272,
                        .scopes_data = 120,
                        .metadata = 260,
                        .metadata_kind = HOTSPOT_METADATA_IN_BLOB,
                        .has_scopes = true,
                        .at = {.heaps = {{BASE, BASE + size / 2, BASE + size / 2}},
                               .interpreter = BASE + size / 4,
                               .interpreter_size = (uint32_t) size / 8,
                               .symbol_mask = ~0xffffull,
                               .blob_name = 96,
                               .blob_begin = 32,
                               .blob_end = 40,
                               .blob_complete = 20,
                               .blob_frame = 28,
                               .code_method = 112,
                               .code_id = 304,
                               .code_original = 300,
                               .code_deopt = 128,
                               .code_deopt_mh = 136,
                               .method_const = 8,
                               .const_pool = 8,
                               .const_size = 48,
                               .const_code = 32,
                               .const_name = 34,
                               .pool_holder = 24,
                               .pool_size = 72,
                               .class_name = 24,
                               .segment_shift = 7,
                               .block_bytes = 16,
                               .symbol_length = 4}};

    if (!new)
        return h;
    h.major = 25;
    h.immutable = 96;
    h.scopes_pcs = 196;
    h.scopes_data = 200;
    h.relocation = 28;
    h.mutable_data = 16;
    h.metadata_kind = HOTSPOT_METADATA_MUTABLE;
    h.at.is_relative = 1;
    h.at.blob_kind = 56;
    h.at.blob_name = 8;
    h.at.blob_begin = 36;
    h.at.blob_end = 40;
    h.at.blob_complete = 54;
    h.at.blob_frame = 44;
    h.at.code_method = 80;
    h.at.code_id = 212;
    h.at.code_original = 208;
    h.at.code_deopt = 176;
    h.at.code_deopt_mh = 180;
    h.at.block_bytes = 8;
    return h;
}

static void read_frames(const struct hotspot *h, const struct proc_memory *m, const uint64_t first[WORDS])
{
    union {
        struct hotspot_work work;
        uint64_t words[64];
    } x = {.work = {.at = {first[0], first[1], first[2], first[3], first[4], 1, 0, {0}}}};
    struct hotspot_reader r = {h, m};
    struct hotspot_scope scopes[HOTSPOT_INLINED_MAX];
    struct hotspot_method method;
    struct str name;
    struct arena a;
    uint64_t of = 0;
    uint32_t n;

    arena_init(&a, 1 << 20);
    for (int i = 0; i < 64 && hotspot_step_at(m, &h->at, &x.work) == HOTSPOT_STEPPED; i++)
        ;
    hotspot_content(&r, first[5]);
    hotspot_method_read(&r, first[5], (int32_t) first[6], &a, &method);
    hotspot_code(&r, first[5], &of);
    n = hotspot_scopes(&r, first[5], first[0], first[7] & 1, scopes);
    for (uint32_t i = 0; i < n; i++)
        hotspot_method_read(&r, scopes[i].method, scopes[i].bci, &a, &method);
    hotspot_stub_read(&r, first[5], first[0], first[6], &a, &name);
    arena_done(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hotspot_input in = {data, size};
    struct proc_memory m = {.read = read_input, .data = &in};
    struct hotspot_image image;
    struct hotspot *h = mem_zalloc(sizeof *h);
    uint64_t first[WORDS];
    struct err e = {0};

    if (h && size >= sizeof first) {
        memcpy(first, data, sizeof first);
        *h = layout(first[7] & 2, size);
        read_frames(h, &m, first);
        for (size_t i = 0; i < HOTSPOT_SYMBOLS_N; i++)
            image.at[i] = BASE + sizeof first + 8 * i;
        hotspot_read(&image, 0, &m, h, &e);
    }
    mem_free(h);
    return 0;
}
