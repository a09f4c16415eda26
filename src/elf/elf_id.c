/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads build ids from notes, and computes the htlhash.
 *
 *   note:  u32 name size | u32 desc size | u32 type | name, padded | desc, padded     (padding to 4, or 8 by alignment)
 *
 * GNU build id: name "GNU", type 3. Go: name "Go", type 4, in .note.go.buildid.
 */
#include "elf/elf_id.h"

#include "base/bytes.h"
#include "base/sha256.h"

static uint32_t u32_at(const uint8_t *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof(v));
    return v;
}

static int each_note_of(struct elf_bytes b, uint64_t align, int (*visit)(const struct elf_note *, void *), void *data)
{
    size_t pad = align == 8 ? 8 : 4;

    while (b.n >= 12) {
        size_t n_name = u32_at(b.p), n_desc = u32_at(b.p + 4), desc_at, next;
        struct elf_note n = {.type = u32_at(b.p + 8)};
        int r;

        if (n_name > b.n - 12)
            return 0;
        desc_at = ALIGN_UP(12 + n_name, pad);
        if (desc_at > b.n || n_desc > b.n - desc_at)
            return 0;
        n.name = (struct str){(const char *) b.p + 12, (uint32_t) strnlen((const char *) b.p + 12, n_name)};
        n.desc = (struct elf_bytes){b.p + desc_at, n_desc, 0};
        r = visit(&n, data);
        if (r)
            return r;
        next = ALIGN_UP(desc_at + n_desc, pad);
        if (next >= b.n)
            return 0;
        b.p += next;
        b.n -= next;
    }
    return 0;
}

int elf_each_note(const struct elf_file *f, int (*visit)(const struct elf_note *n, void *data), void *data)
{
    for (uint32_t i = 0; i < f->n_segments; i++)
        if (f->segments[i].type == PT_NOTE) {
            int r = each_note_of(elf_segment_bytes(f, &f->segments[i]), f->segments[i].align, visit, data);

            if (r)
                return r;
        }
    for (uint32_t i = 0; i < f->n_sections; i++)
        if (f->sections[i].type == SHT_NOTE) {
            int r = each_note_of(elf_bytes_of(f, &f->sections[i]), f->sections[i].align, visit, data);

            if (r)
                return r;
        }
    return 0;
}

static void put_hex(const uint8_t *p, size_t n, char *ret)
{
    *hex_write(ret, p, MIN(n, (ELF_ID_MAX - 1) / 2)) = 0;
}

static int visit_gnu(const struct elf_note *n, void *data)
{
    if (n->type != NT_GNU_BUILD_ID || !str_is(n->name, "GNU") || n->desc.n == 0)
        return 0;
    put_hex(n->desc.p, n->desc.n, data);
    return 1;
}

bool elf_gnu_build_id(const struct elf_file *f, char ret[ELF_ID_MAX])
{
    ret[0] = 0;
    return elf_each_note(f, visit_gnu, ret) == 1;
}

static int visit_go(const struct elf_note *n, void *data)
{
    char *ret = data;
    size_t len = MIN(n->desc.n, ELF_ID_MAX - 1);

    if (n->type != 4 || !str_is(n->name, "Go") || len == 0)
        return 0;
    memcpy(ret, n->desc.p, len);
    ret[len] = 0;
    return 1;
}

bool elf_go_build_id(const struct elf_file *f, char ret[ELF_ID_MAX])
{
    ret[0] = 0;
    return elf_each_note(f, visit_go, ret) == 1;
}

void elf_htlhash(const struct elf_file *f, char ret[ELF_ID_MAX])
{
    uint8_t digest[SHA256_SIZE], length[8];
    size_t n = MIN(f->size, 4096);
    struct sha256 s;

    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t) ((uint64_t) f->size >> (56 - 8 * i));
    sha256_init(&s);
    sha256_add(&s, f->data, n);
    sha256_add(&s, f->data + f->size - n, n);
    sha256_add(&s, length, sizeof(length));
    sha256_final(&s, digest);
    put_hex(digest, 16, ret);
}
