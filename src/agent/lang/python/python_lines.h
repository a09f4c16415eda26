/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the line of an instruction with the line tables of CPython's code objects.
 *
 *   3.9   co_lnotab      pairs {u8 bytes, s8 lines}: after so many bytes of instructions the line changes by so much
 *   3.10  co_linetable   pairs {u8 bytes, s8 lines}: the next so many bytes have the line changed by so much; -128 = none
 *   3.11+ co_linetable   entries: first byte 1CCCCLLL, L + 1 code units (2 bytes each), C:
 *                          0-9    1 byte of columns;  line unchanged
 *                          10-12  2 bytes of columns; line + (C - 10)
 *                          13     svarint line change
 *                          14     svarint line change, varint end line, varint column + 1, varint end column + 1
 *                          15     no line
 *                        varint: 6 bits each, least first, 0x40 = more follow; svarint: low bit is the sign
 */
#ifndef AGENT_LANG_PYTHON_LINES_H
#define AGENT_LANG_PYTHON_LINES_H

#include "base/str.h"

/* The line of the instruction at byte `instr` (negative: before the first), 0 when the table says that it has none. An
 * instruction after the table's end has first_line. */
int64_t python_line(unsigned minor, struct str table, int32_t first_line, int64_t instr);

#endif
