/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes text from untrusted sources safe for terminals and logs: control characters (C0, DEL, and C1 as bytes or as
 * UTF-8) are written as \xNN, characters that reorder text, end a line or are invisible (U+202E, U+2028, U+200B and
 * their kin) as \uNNNN. A name in a profile could otherwise move the cursor, change the title of the window, forge a line or
 * look like another name.
 */
#ifndef BASE_PRINTABLE_H
#define BASE_PRINTABLE_H

#include <stdbool.h>

#include "base/buf.h"

/* Appends s. Tabs are kept: the kernel's symbols have one before their module. lines: line ends are kept, too. */
void printable_put(struct buf *b, struct str s, bool lines);
/* The same in place, in a NUL-terminated array of this size; text that does not fit is cut off. Tabs and line ends are
 * kept. */
void printable_fix(char *text, size_t size);

#endif
