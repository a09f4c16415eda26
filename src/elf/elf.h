/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An ELF file: its header, segments, sections and their bytes. 32 and 64 bits, little endian. Files are untrusted:
 * every offset and size is checked once, when the file is opened, and whatever points outside is truncated or ignored.
 *
 *     _cleanup_(elf_freep) struct elf_file *f = NULL;
 *     r = elf_open("/usr/bin/x", &f, &e);
 *     struct elf_bytes b = elf_bytes_of(f, elf_find_section(f, ".eh_frame"));
 *
 * A file opened by path or descriptor is mapped, so its bytes cost nothing until they are read. If the file is
 * truncated while it is open, reading it raises SIGBUS, which is why `wick serve` reads binaries in a separate process.
 * A struct elf_file is read-only once it is open: any number of threads may use it.
 */
#ifndef ELF_ELF_H
#define ELF_ELF_H

#include <elf.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

struct elf_section {
    struct str name;
    uint32_t type, link, info;
    uint64_t flags, address, offset, size, align, entry_size;
};

struct elf_segment {
    uint32_t type, flags;
    uint64_t offset, vaddr, filesz, memsz, align;
};

struct elf_bytes {
    const uint8_t *p; /* NULL when there are none */
    size_t n;
    uint64_t address; /* where the first byte is loaded */
};

struct elf_file {
    const uint8_t *data;
    size_t size;
    uint16_t type, machine; /* ET_*, EM_* */
    bool is64;
    uint64_t entry;
    struct elf_segment *segments;
    struct elf_section *sections;
    uint32_t n_segments, n_sections;
    void *map;    /* to be unmapped, or NULL */
    void *owned;  /* to be freed, or NULL */
    dev_t device; /* device, inode and mtime identify the file, if there is one; used as cache key */
    ino_t inode;
    int64_t mtime_ns;
};

enum { ELF_SECTIONS_MAX = 1 << 20, ELF_SEGMENTS_MAX = 1 << 16 };
/* A file that .gnu_debuglink names is only trusted by a checksum over all of it: larger ones are ignored. */
enum { ELF_DEBUGLINK_MAX = 256 << 20 };

/* -ENOENT and so on from the system; -ENOEXEC when it is not an ELF file that is supported here. */
int elf_open(const char *path, struct elf_file **ret, struct err *e);
int elf_open_fd(int fd, struct elf_file **ret, struct err *e); /* fd may be closed afterwards */
/* Opens bytes that the caller owns and keeps valid, or, with take, memory of base/mem that the file owns on success. */
int elf_from_bytes(const void *p, size_t n, bool take, struct elf_file **ret, struct err *e);
void elf_free(struct elf_file *f);
DEFINE_CLEANUP(struct elf_file *, elf_free)

/* NULL when there is none of that name. */
const struct elf_section *elf_find_section(const struct elf_file *f, const char *name);
/* The section's bytes in the file: none for a NULL section, SHT_NOBITS, or one that is compressed. */
struct elf_bytes elf_bytes_of(const struct elf_file *f, const struct elf_section *s);
static inline struct elf_bytes elf_section_bytes(const struct elf_file *f, const char *name)
{
    return elf_bytes_of(f, elf_find_section(f, name));
}
struct elf_bytes elf_segment_bytes(const struct elf_file *f, const struct elf_segment *p);
/* The sum of the inflated sizes that the file's compressed sections declare; UINT64_MAX if they are invalid. */
uint64_t elf_inflated_size(const struct elf_file *f);
/* The n bytes in the file that are loaded at a virtual address; NULL when they are not all in the file. */
const void *elf_at_address(const struct elf_file *f, uint64_t address, size_t n);

#endif
