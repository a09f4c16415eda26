/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a report from a profile and pprof's options, in pprof's order: overrides of the command, frames made of labels,
 * total, filters, granularity (with -relative_percentages the filters come before the total).
 */
#ifndef REPORT_REPORT_DRIVER_H
#define REPORT_REPORT_DRIVER_H

#include "report/pprof_config.h"
#include "report/report.h"

struct report_command {
    const char *name; /* "top", "peek": some names change defaults */
    enum report_format format;
    struct str argument; /* p == NULL: none; the expression of peek, list, disasm, weblist */
};

struct report_run {
    struct report report;
    struct regex *symbol;
    struct arena arena;
};

/* Where warnings go. */
struct report_say {
    filter_message *fn;
    void *arg;
};

/* Filters p in place and makes the report. say may be NULL. What it fills is freed by report_run_done(), also
 * after a failure. */
int report_run_prepare(struct report_run *run, struct prof *p, const struct report_command *cmd,
                       const struct pprof_config *config, const struct report_say *say, struct err *e);
void report_run_done(struct report_run *run);
/* Total and header lines of the profile as it is, for the shell's greeting. */
int report_greeting(struct prof *p, const struct pprof_config *config, struct buf *out, int64_t *ret_total,
                    filter_message *say, void *arg);

#endif
