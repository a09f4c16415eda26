/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The objects that the loader has mapped: published for handlers as core.modules, and remembered as files for names and
 * mappings. To be called on the background thread, or before it starts.
 */
#ifndef SDK_MODULES_H
#define SDK_MODULES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"
#include "sdk/core.h"

enum { BUILD_ID_MAX = 20 };

struct module_file {
    char *path;      /* NULL if it has none */
    bool is_program; /* which can be read even if its path is not accessible, or the file was replaced */
    uint8_t build_id[BUILD_ID_MAX];
    uint32_t build_id_n;
    struct unwind_table *table;
    bool table_made; /* or tried */
    const uint8_t *memory; /* the vdso's image, NULL for files */
    size_t memory_size;
    uint64_t lo, hi, bias; /* where it was mapped last */
    uint64_t offset;       /* file offset of lo */
};

/* Checks whether objects were loaded or unloaded, and publishes a new set if so. Returns 1 if it did, 0, or a negative
 * errno. */
int modules_refresh(void);
/* From the first refresh until modules_make_tables(), objects have no unwind tables: the handler reads each rule from the object
 * itself. They cost milliseconds, which a process that ends at once should not spend. Before the first refresh. */
void modules_tables_later(void);
/* Makes them; returns like modules_refresh(). */
int modules_make_tables(void);
/* The file with the index module.file; 0 is a file without a name, for code outside all objects. */
const struct module_file *modules_file(uint32_t i);
uint32_t modules_files(void);
struct elf_file;
/* Opens the file to read its names. -ESTALE if the file at the path is a different build from the one that was
 * loaded. */
int modules_open(const struct module_file *f, struct elf_file **ret);
/* A path at which another process can read the file that was loaded: its own or, if the program was replaced meanwhile, one
 * below /proc, which is written to buf. NULL if there is none: the file at the path is a different build, or gone. */
const char *modules_path(const struct module_file *f, char *buf, size_t n);
/* The set of this generation, if it is in use or was in use at the last refresh. NULL if it was freed. */
const struct module_set *modules_generation(uint32_t generation);
const struct module *modules_find(const struct module_set *set, uint64_t pc);
/* Around fork(): makes sure that the loader's lock is not held in the child. */
void modules_fork_prepare(void);
void modules_fork_done(void);

#endif
