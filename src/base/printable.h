/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes text from untrusted sources safe for terminals and logs: control characters (C0, DEL, and C1 as bytes or as
 * UTF-8) are written as \xNN. A name in a profile could otherwise move the cursor, change the title of the window or
 * forge a line.
 */
#ifndef BASE_PRINTABLE_H
#define BASE_PRINTABLE_H

#include <stdbool.h>

#include "base/buf.h"

/* Appends s. lines: tabs and line ends are kept, for multi-line text. */
void printable_put(struct buf *b, struct str s, bool lines);
/* The same in place, in a NUL-terminated array of this size; text that does not fit is cut off. Tabs and line ends are
 * kept. */
void printable_fix(char *text, size_t size);

#endif
