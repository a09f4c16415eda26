/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of records for people: the columns are those of the records' tables (base/record.h), each value with its unit. */
#ifndef CLIENT_RECORD_TEXT_H
#define CLIENT_RECORD_TEXT_H

#include "base/record.h"
#include "client/text_table.h"
#include "model/types.h"

/* The value as people read it. of: the type whose unit values have. */
void record_text_value(struct buf *out, const struct record_field *f, const void *at, const struct type *of);
/* A line of headings and one for each record; nothing without records. Lines are cut at width; 0: they are not. */
int record_text(struct buf *out, int width, const struct record_field *fields, size_t size,
                const struct record_list *records, const struct type *of);

#endif
