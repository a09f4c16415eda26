/* SPDX-License-Identifier: Apache-2.0 */
/* The output of `wick record` without a file: pprof's top, or its shell. */
#ifndef RECORD_RECORD_REPORT_H
#define RECORD_RECORD_REPORT_H

#include "base/err.h"

struct batch;

/* command: a report of pprof that needs no argument ("top"), or NULL for the shell. */
int record_report(struct batch *b, const char *command, struct err *e);

#endif
