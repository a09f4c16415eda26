/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The binaries of this machine that a profile names: the file at the recorded path, or the copy in perf's cache (~/.debug), if
 * its build id is the recorded one. One thread.
 */
#ifndef LOCAL_LOCAL_OBJECTS_H
#define LOCAL_LOCAL_OBJECTS_H

#include "base/macros.h"
#include "base/str.h"

struct elf_file;
struct local_objects;
struct unwind_table;

struct local_object {
    struct elf_file *elf;
    char *path; /* "" for the vdso */
    struct unwind_table *table;
    bool table_tried;
};

struct local_objects *local_objects_new(void); /* NULL if out of memory */
void local_objects_free(struct local_objects *o);
DEFINE_CLEANUP(struct local_objects *, local_objects_free)

/* NULL if this machine does not have the binary. Without a recorded build id, only a file that has none either is taken. */
struct local_object *local_object_find(struct local_objects *o, struct str path, struct str build_id);
/* The unwind table; NULL if the file has none. */
const struct unwind_table *local_object_table(struct local_object *x);
/* The ELF address of a byte of the file; false if it is not loaded. */
bool local_object_address(const struct local_object *x, uint64_t file_offset, uint64_t *ret);

#endif
