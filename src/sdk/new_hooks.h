/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entrances of other allocators that do not lead through malloc(): tcmalloc and jemalloc bring their own operator new and
 * delete, jemalloc its mallocx() family. Where these live in the same object as the process's malloc() they are hooked in
 * the offset tables of the loaded objects. libstdc++'s own call malloc(), where they are seen already.
 */
#ifndef SDK_NEW_HOOKS_H
#define SDK_NEW_HOOKS_H

/* allocator: the malloc() of the process. Does nothing for what is not in its object. May be called again when objects
 * were loaded; background thread, or before it starts. */
void new_hooks_install(void *allocator);

#endif
