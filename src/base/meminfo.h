/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory there is for this process, and how much of it it has. */
#ifndef BASE_MEMINFO_H
#define BASE_MEMINFO_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of the machine, or of the smallest control group (version 1 or 2) that this process is in. */
uint64_t meminfo_total(void);
/* What a server may take: as configured, or a quarter of that; at least 64 MiB. */
size_t meminfo_limit(int64_t configured);
/* Bytes that are resident now; 0 when the kernel does not say. */
uint64_t meminfo_resident(void);
/* Bytes in use: allocated and not freed, and what is mapped of files. */
uint64_t meminfo_used(void);
/* Gives memory that was freed back to the system; for moments when much was. */
void meminfo_trim(void);

#endif
