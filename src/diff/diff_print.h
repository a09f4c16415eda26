/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the result of `wick diff` as text, as Markdown for a pull request, or as JSON. */
#ifndef DIFF_DIFF_PRINT_H
#define DIFF_DIFF_PRINT_H

#include "diff/diff_gate.h"
#include "diff/diff_rows.h"

struct diff_result {
    const char *old, *new; /* as given */
    const struct diff_input *in;
    const struct diff_rows *rows;
    const struct diff_gate *gates;
    uint32_t n_gates;
    uint32_t limit; /* of the rows */
    enum diff_outcome outcome; /* the worst of the conditions */
};

int diff_print_text(const struct diff_result *d, struct buf *out);
void diff_print_markdown(const struct diff_result *d, struct buf *out);
void diff_print_json(const struct diff_result *d, struct buf *out);

#endif
