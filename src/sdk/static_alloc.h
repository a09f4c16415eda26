/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocators that are linked into the program under names of their own, as the Rust crates of jemalloc (_rjem_malloc) and
 * mimalloc (mi_malloc) are: their functions are called directly, through no offset table. They are found by the program's
 * symbols, and the calls themselves are changed: the 32-bit distances in its code that lead to such a function lead to a hook
 * instead. Only before the program's first instruction, when no thread can be in the middle of one.
 */
#ifndef SDK_STATIC_ALLOC_H
#define SDK_STATIC_ALLOC_H

/* Once; later calls do nothing. Returns the name of an allocator that is there and could not be hooked, else NULL. */
const char *static_alloc_install(void);

#endif
