/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Identifiers of a binary: the GNU build id, Go's build id, and the OpenTelemetry profiles hash of the file (htlhash).
 * All are text in the form in which they are sent: lower-case hexadecimal; Go's unchanged.
 */
#ifndef ELF_ELF_ID_H
#define ELF_ELF_ID_H

#include "elf/elf.h"

/* Calls f for each note until it returns a value other than 0, which is returned. Segments first, then sections. */
struct elf_note {
    struct str name; /* without its NUL */
    uint32_t type;
    struct elf_bytes desc;
};
int elf_each_note(const struct elf_file *f, int (*visit)(const struct elf_note *n, void *data), void *data);

enum { ELF_ID_MAX = 256 }; /* room for any of them, with its NUL */

/* ret gets the text and a NUL; false with an empty text when there is none. */
bool elf_gnu_build_id(const struct elf_file *f, char ret[ELF_ID_MAX]);
bool elf_go_build_id(const struct elf_file *f, char ret[ELF_ID_MAX]);
/* SHA-256(first 4096 bytes, last 4096 bytes, length as 64 bits big endian), its first 16 bytes. */
void elf_htlhash(const struct elf_file *f, char ret[ELF_ID_MAX]);

#endif
