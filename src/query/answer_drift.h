/* SPDX-License-Identifier: Apache-2.0 */
/* The questions drift, verdict, verdicts, explain, findings and trends of the table in answer.c. */
#ifndef QUERY_ANSWER_DRIFT_H
#define QUERY_ANSWER_DRIFT_H

#include "query/answer.h"

int answer_run_drift(struct answer_request *c, struct buf *out, struct err *e);
int answer_run_verdict(struct answer_request *c, struct buf *out, struct err *e);
int answer_run_verdicts(struct answer_request *c, struct buf *out, struct err *e);
int answer_run_explain(struct answer_request *c, struct buf *out, struct err *e);
int answer_run_findings(struct answer_request *c, struct buf *out, struct err *e);
int answer_run_trends(struct answer_request *c, struct buf *out, struct err *e);

#endif
