/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocation functions of other allocators that do not call malloc(): tcmalloc and jemalloc have their own operator new
 * and delete, and jemalloc its mallocx() family. Where these are in the same object as the process's malloc(), they are
 * hooked in the offset tables of the loaded objects. Those of libstdc++ call malloc(), where they are already seen.
 */
#ifndef SDK_NEW_HOOKS_H
#define SDK_NEW_HOOKS_H

/* allocator: the malloc() of the process. Functions that are not in its object are left alone. May be called again
 * after objects were loaded; to be called on the background thread, or before it starts. */
void new_hooks_install(void *allocator);

#endif
