/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hooks without preloading: the addresses by which loaded objects call a function (their global offset tables) are replaced
 * by those of a hook. Objects that come later are done when the background notices them. Never undone: hooks that are off
 * cost a load and a jump.
 */
#ifndef SDK_GOT_H
#define SDK_GOT_H

#include <stddef.h>

struct got_hook {
    const char *name;
    void *hook;
};

/* In all loaded objects but our own, the loader, and the one that holds the address skip (NULL: none). Returns how many
 * places were changed. */
int got_install(const struct got_hook *hooks, size_t n, const void *skip);

#endif
