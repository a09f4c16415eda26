/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that moved between the two sides of a diff. A function of a script is its name, its file and its first line
 * (frame_is_of_script()); an edit above it moves its line, and a service that is installed into a new folder for each
 * release has a new path for every file. Without this, all of these would be gone on one side and new on the other.
 *
 * Files first: a file of one side is a file of the other if their paths end in the same components, no other file does, and
 * the folders before these were replaced, which means that nothing of the old one is on the new side, nor the reverse.
 *
 * Then functions of one name in a file. If there is one on each side, it is the same. If there are several, or they have no name of
 * their own (lambdas, callbacks), lines tell them apart as long as the file was not edited. If it was, which is which cannot
 * be known: they become one function, without a line if there are several.
 */
#ifndef MODEL_MOVED_H
#define MODEL_MOVED_H

#include "model/tree.h"

enum { MOVED_BASE = 1, MOVED_NEW = 2 };

struct moved {
    struct str name, file;
    int64_t line;
    uint32_t index; /* of the caller */
    uint8_t kind;
    uint8_t sides; /* MOVED_BASE, MOVED_NEW or both */
    /* set by moved_match(): */
    bool lineless; /* several functions of the same name became one */
    uint32_t into; /* index of what it is; its own index if it did not move */
    uint32_t place;
};

/* Finds what moved. The order of items changes. */
int moved_match(struct moved *items, size_t n);

/* Makes a copy of t, which has two columns, in which functions of scripts that moved are one, with their place in column 1.
 * *ret is NULL if nothing moved. */
int tree_match_moved(const struct tree *t, size_t memory_limit, struct tree **ret);

#endif
