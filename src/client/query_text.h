/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints answers of query/answer.h as text: the JSON, local or from a server, as tables and trees on a terminal.
 */
#ifndef CLIENT_QUERY_TEXT_H
#define CLIENT_QUERY_TEXT_H

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

struct query_text {
    struct buf text;
    struct buf notes; /* what the reader has to know of the answer, a line each; for standard error */
    size_t rows;      /* of data; 0: nothing matches the query */
};

struct question;

/* width: columns of the terminal, 0 = do not cut lines. Appends to *ret. */
int query_text(const struct question *what, struct str json, int width, struct query_text *ret, struct err *e);
void query_text_done(struct query_text *t);

#endif
