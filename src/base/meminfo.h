/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory is available to this process, and how much it uses. */
#ifndef BASE_MEMINFO_H
#define BASE_MEMINFO_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of the machine, or the limit of the smallest control group (version 1 or 2) that this process is in. */
uint64_t meminfo_total(void);
/* The memory limit of a server: as configured, or a quarter of the total; at least 64 MiB. */
size_t meminfo_limit(int64_t configured);
/* Resident bytes; 0 if the kernel does not report them. */
uint64_t meminfo_resident(void);
/* Bytes in use, as the kernel counts them: resident, and not pages of files, which are its cache. */
uint64_t meminfo_used(void);
/* Returns freed memory to the system; call it after much was freed. */
void meminfo_trim(void);

#endif
