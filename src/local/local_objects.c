/* SPDX-License-Identifier: Apache-2.0 */
/* Finds and keeps the binaries of a profile (local_objects.h). */
#include "local/local_objects.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/mem.h"
#include "elf/elf_id.h"
#include "unwind/elf_table.h"

enum { OBJECTS_MAX = 1 << 16 };

struct local_objects {
    struct local_object *v;
    size_t n, cap;
    struct map map;
};

struct local_objects *local_objects_new(void)
{
    return mem_zalloc(sizeof(struct local_objects));
}

void local_objects_free(struct local_objects *o)
{
    if (!o)
        return;
    for (size_t i = 0; i < o->n; i++) {
        unwind_table_free(o->v[i].table);
        elf_free(o->v[i].elf);
        mem_free(o->v[i].path);
    }
    map_done(&o->map);
    mem_free(o->v);
    mem_free(o);
}

static bool is_build(const struct elf_file *f, struct str build_id)
{
    char id[ELF_ID_MAX];

    if (!elf_gnu_build_id(f, id) && !elf_go_build_id(f, id))
        return !build_id.n;
    return str_is(build_id, id);
}

static struct elf_file *try_path(const char *path, struct str build_id)
{
    _cleanup_(elf_freep) struct elf_file *f = NULL;
    int fd = fd_open_regular(path);

    if (fd < 0)
        return NULL;
    if (elf_open_fd(fd, &f, NULL) < 0 || !is_build(f, build_id))
        elf_free(TAKE(f));
    fd_close(fd);
    return TAKE(f);
}

/* The kernel's code in this process is that of others, if it is the same kernel. */
static struct elf_file *try_vdso(struct str build_id)
{
    _cleanup_(elf_freep) struct elf_file *f = NULL;
    const Elf64_Ehdr *h = (const Elf64_Ehdr *) getauxval(AT_SYSINFO_EHDR);

    if (!h || elf_from_bytes(h, h->e_shoff + (size_t) h->e_shnum * h->e_shentsize, false, &f, NULL) < 0)
        return NULL;
    return !build_id.n || is_build(f, build_id) ? TAKE(f) : NULL;
}

static int open_object(struct local_object *x, struct str path, struct str build_id)
{
    _cleanup_(buf_done) struct buf name = BUF_INIT;
    const char *home = getenv("HOME");

    if (str_is(path, "[vdso]")) {
        x->elf = try_vdso(build_id);
    } else if (path.n && path.p[0] == '/') {
        buf_put_str(&name, path);
        x->elf = buf_cstr(&name) ? try_path(name.p, build_id) : NULL;
        if (!x->elf && build_id.n > 2 && home) {
            buf_reset(&name);
            buf_printf(&name, "%s/.debug/.build-id/%.2s/%.*s/elf", home, build_id.p, (int) build_id.n - 2, build_id.p + 2);
            x->elf = buf_cstr(&name) ? try_path(name.p, build_id) : NULL;
        }
    }
    x->path = mem_strdup(x->elf && name.n ? name.p : "");
    return buf_error(&name) || !x->path ? -ENOMEM : 0;
}

struct local_object *local_object_find(struct local_objects *o, struct str path, struct str build_id)
{
    uint64_t h = hash_mix(hash64_str(path), hash64_str(build_id));
    struct map_pos p = map_find(&o->map, h);
    struct local_object x = {0};

    if (p.index == MAP_NONE) {
        if (open_object(&x, path, build_id) < 0 || array_push(o->v, o->n, o->cap, OBJECTS_MAX, x) < 0) {
            elf_free(x.elf);
            mem_free(x.path);
            return NULL;
        }
        if (map_insert(&o->map, h, (uint32_t) (o->n - 1)) < 0)
            return NULL;
        return o->v[o->n - 1].elf ? &o->v[o->n - 1] : NULL;
    }
    return o->v[p.index].elf ? &o->v[p.index] : NULL;
}

const struct unwind_table *local_object_table(struct local_object *x)
{
    if (!x->table_tried && elf_table_new(x->elf, NULL, &x->table, NULL) < 0)
        x->table = NULL;
    x->table_tried = true;
    return x->table;
}

bool local_object_address(const struct local_object *x, uint64_t file_offset, uint64_t *ret)
{
    for (uint32_t i = 0; i < x->elf->n_segments; i++) {
        const struct elf_segment *s = &x->elf->segments[i];
        uint64_t first = s->offset & ~(uint64_t) 4095; /* whole pages are mapped */

        if (s->type == PT_LOAD && file_offset >= first && file_offset < s->offset + s->filesz && s->flags & PF_X) {
            *ret = file_offset - s->offset + s->vaddr;
            return true;
        }
    }
    return false;
}
