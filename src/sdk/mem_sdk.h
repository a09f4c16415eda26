/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of libwick's allocator beyond base/mem.h. */
#ifndef SDK_MEM_SDK_H
#define SDK_MEM_SDK_H

#include <stddef.h>

void mem_sdk_set_budget(size_t bytes); /* allocations beyond the budget fail; 0 = no limit */
size_t mem_sdk_held(void);             /* bytes mapped from the kernel */
void mem_sdk_fork_prepare(void);       /* before fork(): takes the lock */
void mem_sdk_fork_done(void);

#endif
