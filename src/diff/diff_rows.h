/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of `wick diff`: their shares on both sides, and with several profiles a side whether they differ
 * significantly (query/drift_stats.h; profiles of one side are taken to be independent). */
#ifndef DIFF_DIFF_ROWS_H
#define DIFF_DIFF_ROWS_H

#include "diff/diff_load.h"
#include "query/drift_stats.h"

struct diff_row {
    struct str function; /* as long as the input */
    double self[2];      /* shares, 0 to 1: means over the profiles of a side */
    struct drift_test total;
};

struct diff_rows {
    struct diff_row *v; /* largest change of the total first */
    uint32_t n;
    bool tested;
    struct arena arena;
};

int diff_rows(const struct diff_input *in, struct diff_rows *ret);
void diff_rows_done(struct diff_rows *r);

#endif
