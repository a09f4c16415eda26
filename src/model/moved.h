/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that moved between the two sides of a diff. A function of a script is its name, its file and its first line
 * (frame_is_of_script()); an edit above it moves its line, and a service that is deployed into a new folder for each release
 * has a new path for every file. Without this, all of these would be gone on one side and new on the other.
 *
 * What is on one side only is compared by name and by the path's last components, first all of them, then 3, 2 and 1. Where
 * both sides have equally many of one name, they are the same, in the order of their files and lines. What remains is gone or new.
 */
#ifndef MODEL_MOVED_H
#define MODEL_MOVED_H

#include "model/tree.h"

struct moved {
    struct str name, file;
    int64_t line;
    uint32_t index; /* the caller's */
    uint8_t kind;
    uint8_t side;  /* the column that it is in */
    uint32_t into; /* set, on side 0: index of what it is on side 1, or TREE_NONE */
};

/* Sets into. The order of items changes. */
void moved_match(struct moved *items, size_t n);

/* Gives functions of scripts that moved the place that they have in column 1, and merges their nodes. *t has two columns; it is
 * replaced if something moved. */
int tree_match_moved(struct tree **t);

#endif
