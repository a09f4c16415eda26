/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The build information that the Go linker writes: "runtime/debug".BuildInfo, in every Go binary since 1.13, stripped
 * or not.
 *
 *   header, 32 bytes, aligned to 16, in .go.buildinfo or at the start of the data segment
 *     0   14  "\xff Go buildinf:"
 *     14  u8  pointer size
 *     15  u8  flags: 1 big endian, 2 the strings follow the header (Go 1.18 and later)
 *     16      without flag 2: pointers to two Go strings (pointer, length)
 *     32      with flag 2: varint length, version of Go; varint length, module text
 *   module text: 16 bytes of a mark, lines, 16 bytes of a mark; a line is a word, a tab, fields with tabs between
 */
#ifndef ELF_GO_BUILD_H
#define ELF_GO_BUILD_H

#include "elf/elf.h"

struct go_build {              /* all strings point into the file; empty if not present */
    struct str version;        /* "go1.26.1" */
    struct str path;           /* of the main package */
    struct str module_version; /* "v1.2.3" or "(devel)" */
    struct str vcs_revision;
    bool vcs_modified;
};

/* False when the binary is not a Go binary, or has no build information. */
bool go_build_read(const struct elf_file *f, struct go_build *ret);
/* Parses the lines of the module text, for callers that have only that. */
void go_build_parse(struct str text, struct go_build *ret);
/* 26 of "go1.26.1", "go1.26rc1", "go1.26-custom"; 0 when it is not of that form. */
unsigned go_build_minor(struct str version);

#endif
