/* SPDX-License-Identifier: Apache-2.0 */
/* Reads Go's build information from a binary. */
#include "elf/go_build.h"

#include "base/bytes.h"

enum { HEADER = 32, STRING_MAX = 1 << 20, MARK = 16 };

static const char magic[] = "\xff Go buildinf:";

static struct str take_string(struct cursor *c)
{
    struct str s = get_bytes(c);

    return s.n > STRING_MAX ? (struct str){0} : s;
}

/* A Go string variable at an address of a 64-bit little endian file. */
static struct str string_at(const struct elf_file *f, uint64_t address)
{
    const uint8_t *p = elf_at_address(f, address, 16);
    uint64_t v[2];

    if (!p)
        return (struct str){0};
    memcpy(v, p, sizeof v);
    if (v[1] > STRING_MAX || !(p = elf_at_address(f, v[0], v[1])))
        return (struct str){0};
    return (struct str){(const char *) p, (uint32_t) v[1]};
}

static struct elf_bytes find_header(const struct elf_file *f)
{
    struct elf_bytes b = elf_section_bytes(f, ".go.buildinfo");

    for (uint32_t i = 0; !b.p && i < f->n_segments; i++)
        if (f->segments[i].type == PT_LOAD && f->segments[i].flags & PF_W)
            b = elf_segment_bytes(f, &f->segments[i]);
    for (size_t at = 0; b.p && at + HEADER <= MIN(b.n, (size_t) 1 << 20); at += 16)
        if (memcmp(b.p + at, magic, sizeof magic - 1) == 0)
            return (struct elf_bytes){b.p + at, b.n - at, b.address + at};
    return (struct elf_bytes){0};
}

static void parse_line(struct str line, struct go_build *ret)
{
    struct str word = str_cut(&line, '\t'), key;

    if (str_is(word, "path")) {
        ret->path = line;
    } else if (str_is(word, "mod")) {
        str_cut(&line, '\t');
        ret->module_version = str_cut(&line, '\t');
    } else if (str_is(word, "build")) {
        key = str_cut(&line, '=');
        if (str_is(key, "vcs.revision"))
            ret->vcs_revision = line;
        else if (str_is(key, "vcs.modified"))
            ret->vcs_modified = str_is(line, "true");
    }
}

void go_build_parse(struct str text, struct go_build *ret)
{
    while (text.n)
        parse_line(str_cut(&text, '\n'), ret);
}

bool go_build_read(const struct elf_file *f, struct go_build *ret)
{
    struct elf_bytes b = find_header(f);
    struct str text;

    *ret = (struct go_build){0};
    if (!b.p)
        return false;
    if (b.p[15] & 2) {
        struct cursor c = cursor_of(b.p + HEADER, b.n - HEADER);

        ret->version = take_string(&c);
        text = take_string(&c);
    } else {
        uint64_t v[2];

        if (b.p[14] != 8 || b.p[15])
            return false;
        memcpy(v, b.p + 16, sizeof v);
        ret->version = string_at(f, v[0]);
        text = string_at(f, v[1]);
    }
    if (text.n > 2 * MARK && text.p[text.n - MARK - 1] == '\n')
        go_build_parse(str_slice(text, MARK, text.n - MARK), ret);
    return ret->version.n > 0;
}

unsigned go_build_minor(struct str version)
{
    unsigned v = 0;

    if (!str_starts(version, STR("go1.")))
        return 0;
    for (uint32_t i = 4; i < version.n && version.p[i] >= '0' && version.p[i] <= '9' && v < 1000; i++)
        v = v * 10 + (unsigned) (version.p[i] - '0');
    return v;
}
