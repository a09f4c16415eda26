/* SPDX-License-Identifier: Apache-2.0 */
/* The stacks of a process as `wick dump` prints them: as text, or as one JSON object. */
#ifndef RECORD_DUMP_PRINT_H
#define RECORD_DUMP_PRINT_H

#include "base/buf.h"

struct dump;
struct dump_names;

/* Appends to out. Names come from untrusted sources: the text may contain control characters, the JSON does not. */
void dump_print_text(const struct dump *s, const struct dump_names *names, struct buf *out);
void dump_print_json(const struct dump *s, const struct dump_names *names, struct buf *out);

#endif
