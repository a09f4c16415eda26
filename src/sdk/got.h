/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hooks without preloading: the addresses by which loaded objects call a function (in their global offset tables) are
 * replaced by the address of a hook. Objects loaded later are patched when the background thread notices them. Hooks
 * are never removed: a hook that is off costs a load and a jump.
 */
#ifndef SDK_GOT_H
#define SDK_GOT_H

#include <stddef.h>

struct got_hook {
    const char *name;
    void *hook;
};

/* Patches all loaded objects except our own, the loader, and the one that contains the address skip (NULL: none).
 * Returns the number of entries changed. */
int got_install(const struct got_hook *hooks, size_t n, const void *skip);

/* An extension's hooks, which are also installed in objects that are loaded later. */
void got_keep(const struct got_hook *hooks, size_t n);
void got_install_kept(void);

#endif
