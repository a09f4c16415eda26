/* SPDX-License-Identifier: Apache-2.0 */
/* Finds objects by what stat() says of a mapped file (file_memo.h). */
#include "agent/file_memo.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "agent/process.h"
#include "base/fd.h"
#include "base/hash.h"

static size_t slot_of(const struct file_memo_slot *file)
{
    return hash64_u64(file->inode ^ file->device << 40) % FILE_MEMO_SLOTS;
}

static bool is_same(const struct file_memo_slot *a, const struct file_memo_slot *b)
{
    return a->device == b->device && a->inode == b->inode && a->size == b->size && a->changed_s == b->changed_s &&
           a->changed_ns == b->changed_ns;
}

int file_memo_ask(uint32_t pid, const struct process_mapping *m, struct file_memo_slot *ret)
{
    char path[80];
    struct stat st;
    int r;

    snprintf(path, sizeof path, "/proc/%u/map_files/%llx-%llx", pid, (unsigned long long) m->start,
             (unsigned long long) m->end);
    r = fd_stat_path(path, &st);
    if (r < 0)
        return r;
    *ret = (struct file_memo_slot){.device = st.st_dev,
                                   .inode = st.st_ino,
                                   .size = (uint64_t) st.st_size,
                                   .changed_s = st.st_ctim.tv_sec,
                                   .changed_ns = st.st_ctim.tv_nsec};
    return 0;
}

struct object *file_memo_find(const struct file_memo *f, struct objects *s, const struct file_memo_slot *file)
{
    const struct file_memo_slot *known = &f->slots[slot_of(file)];
    struct object *o = known->number && is_same(known, file) ? objects_by_number(s, known->number) : NULL;

    return o ? object_ref(o) : NULL;
}

void file_memo_put(struct file_memo *f, const struct file_memo_slot *file, const struct object *o)
{
    struct file_memo_slot *known = &f->slots[slot_of(file)];

    *known = *file;
    known->number = o->number;
}
