/* SPDX-License-Identifier: Apache-2.0 */
/* What libwick's allocator has beyond base/mem.h. */
#ifndef SDK_MEM_SDK_H
#define SDK_MEM_SDK_H

#include <stddef.h>

void mem_sdk_set_budget(size_t bytes); /* allocation fails beyond; 0 = no limit */
size_t mem_sdk_held(void);             /* bytes taken from the kernel */
void mem_sdk_fork_prepare(void);       /* around fork(): holds the lock */
void mem_sdk_fork_done(void);

#endif
