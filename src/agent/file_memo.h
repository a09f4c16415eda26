/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Remembers which object a mapped file is, by what stat() says of the file, so that a file that is already known is not
 * opened and read again for each new process. It is for file systems whose inodes have no generation, which are known by
 * their key otherwise (object.h): overlayfs, and images that were made without mounting them.
 *
 * The change time is part of the identity: it cannot be set back, so that a file with the same number that was written
 * or replaced since is another file. The agent's thread only.
 */
#ifndef AGENT_FILE_MEMO_H
#define AGENT_FILE_MEMO_H

#include <stdint.h>

struct object;
struct objects;
struct process_mapping;

enum { FILE_MEMO_SLOTS = 1024 };

struct file_memo_slot {
    uint64_t device, inode, size;
    int64_t changed_s, changed_ns;
    uint32_t number; /* of the object; 0: empty */
};

struct file_memo {
    struct file_memo_slot slots[FILE_MEMO_SLOTS]; /* a file that hashes to a slot replaces the one that is there */
};

/* What the kernel says of the file that is mapped there; -errno when it cannot be asked. number stays 0. */
int file_memo_ask(uint32_t pid, const struct process_mapping *m, struct file_memo_slot *ret);
/* The object of this file, with a reference for the caller; NULL when it is not known. */
struct object *file_memo_find(const struct file_memo *f, struct objects *s, const struct file_memo_slot *file);
void file_memo_put(struct file_memo *f, const struct file_memo_slot *file, const struct object *o);

#endif
