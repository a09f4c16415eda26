/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text that somebody else wrote, made safe for terminals and logs: control characters (C0, DEL, and C1 as bytes or as UTF-8)
 * are written as \xNN. A name in a profile could otherwise move the cursor, change the title of the window or forge a line.
 */
#ifndef BASE_PRINTABLE_H
#define BASE_PRINTABLE_H

#include <stdbool.h>

#include "base/buf.h"

/* Appends s. lines: tabs and line ends stay, for text of many lines. */
void printable_put(struct buf *b, struct str s, bool lines);
/* The same in a NUL-terminated array of this size; what does not fit is cut off. Tabs and line ends stay. */
void printable_fix(char *text, size_t size);

#endif
