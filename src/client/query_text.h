/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints answers of query/answer.h as text: the JSON, local or from a server, as tables and trees on a terminal.
 */
#ifndef CLIENT_QUERY_TEXT_H
#define CLIENT_QUERY_TEXT_H

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

/* what: the name of the query. width: columns of the terminal, 0 = do not cut lines. *ret_rows is the number of rows of data;
 * 0 means that nothing matches the query. */
int query_text(struct str what, struct str json, int width, struct buf *out, size_t *ret_rows, struct err *e);

#endif
