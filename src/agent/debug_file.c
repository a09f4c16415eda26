/* SPDX-License-Identifier: Apache-2.0 */
/* Searches the usual directories for the debug file of an object, and checks that a candidate belongs to the same
 * build. */
#include "agent/debug_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "agent/object_guard.h"

static const char FOLDER[] = "/usr/lib/debug";

bool debug_file_has_lines(const struct elf_file *f)
{
    const struct elf_section *s = elf_find_section(f, ".debug_info");

    return (s && s->type != SHT_NOBITS) || elf_find_section(f, ".zdebug_info");
}

static bool is_same_build(const struct object *o, const struct elf_file *debug, uint32_t crc)
{
    char id[ELF_ID_MAX];

    if (o->gnu_id[0])
        return elf_gnu_build_id(debug, id) && strcmp(id, o->gnu_id) == 0;
    return debug->size <= ELF_DEBUGLINK_MAX && crc32_z(crc32_z(0, NULL, 0), debug->data, debug->size) == crc;
}

static struct elf_file *open_by_id(const struct object *o, char path[PATH_MAX])
{
    struct elf_file *f = NULL;

    if (strlen(o->gnu_id) < 4)
        return NULL;
    snprintf(path, PATH_MAX, "%s/.build-id/%.2s/%s.debug", FOLDER, o->gnu_id, o->gnu_id + 2);
    return elf_open(path, &f, NULL) < 0 ? NULL : f;
}

static struct elf_file *open_by_link(const struct object *o, const struct elf_file *f, char path[PATH_MAX])
{
    struct elf_bytes link = elf_section_bytes(f, ".gnu_debuglink");
    const char *slash = strrchr(o->path, '/'), *name = (const char *) link.p;
    int folder = slash ? (int) (slash - o->path) : 0;
    size_t length = link.n > 4 ? strnlen(name, link.n - 4) : 0;
    uint32_t crc;

    if (!length || memchr(name, '/', length))
        return NULL;
    memcpy(&crc, link.p + (link.n - 4), sizeof crc); /* the name, zeros up to a multiple of four, the checksum */
    for (int i = 0; i < 3; i++) {
        struct elf_file *debug = NULL;

        snprintf(path, PATH_MAX, "%s%.*s/%s%.*s", i == 2 ? FOLDER : "", folder, o->path, i == 1 ? ".debug/" : "",
                 (int) length, name);
        if (elf_open(path, &debug, NULL) < 0)
            continue;
        if (is_same_build(o, debug, crc))
            return debug;
        elf_free(debug);
    }
    return NULL;
}

struct elf_file *debug_file_open(const struct object *o, const struct elf_file *f, char ret_path[PATH_MAX])
{
    struct elf_file *found = o->kind == OBJECT_FILE ? open_by_id(o, ret_path) : NULL;

    return found || o->kind != OBJECT_FILE ? found : open_by_link(o, f, ret_path);
}

struct search {
    struct object *object;
    char *path;
};

static int find_best(void *arg)
{
    static const char *const sections[] = {".symtab", ".gnu_debugdata", ".gopclntab"};
    struct search *q = arg;
    _cleanup_(elf_freep) struct elf_file *f = NULL, *beside = NULL;
    bool named = false;
    int r = object_open_elf(q->object, &f, NULL);

    if (r < 0)
        return r;
    for (size_t i = 0; i < ARRAY_SIZE(sections); i++)
        named |= elf_find_section(f, sections[i]) != NULL;
    beside = debug_file_has_lines(f) ? NULL : debug_file_open(q->object, f, q->path);
    if (beside)
        return 0;
    object_reach(q->object, q->path, PATH_MAX);
    return named || debug_file_has_lines(f) ? 0 : -ENODATA;
}

int debug_file_best(struct object *o, char ret_path[PATH_MAX])
{
    struct search q = {o, ret_path};

    return o->kind == OBJECT_FILE ? object_guard(find_best, &q) : -ENODATA;
}
