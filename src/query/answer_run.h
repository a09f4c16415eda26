/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the files that answer questions (answer.c, answer_spans.c and others): reading parameters, compiling the selection,
 * and the functions of the table `questions`. All other files use answer.h.
 */
#ifndef QUERY_ANSWER_RUN_H
#define QUERY_ANSWER_RUN_H

#include "query/answer.h"

/* A parameter as text; empty when absent. */
struct str answer_param(struct answer_request *c, const char *name);
/* Parameters as a number or a duration; *ret is unchanged when it is absent. -EINVAL with the parameter's name. */
int answer_param_u64(struct answer_request *c, const char *name, uint64_t *ret, struct err *e);
int answer_param_duration(struct answer_request *c, const char *name, int64_t *ret, struct err *e);
/* limit, at most max. */
int answer_param_limit(struct answer_request *c, uint32_t fallback, uint32_t max, uint32_t *ret, struct err *e);

/* The common parameters, as query_compile() takes them. */
int answer_params_of(struct answer_request *c, struct query_params *ret, struct err *e);
/* None of them: only tenant, limits and what "now" means. */
struct query_params answer_params_none(struct answer_request *c);
/* Compiles them: notes on the answer are collected in the request, and if the parameters select spans, so does the
 * query. */
int answer_compile(struct answer_request *c, struct query **ret, struct err *e);
int answer_compile_params(struct answer_request *c, const struct query_params *p, struct query **ret, struct err *e);

/* answer_pick.c: if the parameters select spans (span_name, slowest, children …), makes the compiled query one for their
 * samples. */
int answer_pick_spans(struct answer_request *c, struct query *q, struct err *e);
/* Appends the answer, a struct that answer_fields.h names for the question, with what every answer ends with. */
void answer_put(const struct answer_request *c, struct buf *out, const void *answer);
/* The end of an answer whose members were written by hand, and its closing brace. */
void answer_put_end(const struct answer_request *c, struct buf *out, bool *first);

/* answer_lists.c */
int answer_run_labels(struct answer_request *c, struct buf *out, struct err *e);
int answer_run_services(struct answer_request *c, struct buf *out, struct err *e);
int answer_run_profiles(struct answer_request *c, struct buf *out, struct err *e);
int answer_run_types(struct answer_request *c, struct buf *out, struct err *e);
int answer_run_deploys(struct answer_request *c, struct buf *out, struct err *e);
int answer_run_symbols(struct answer_request *c, struct buf *out, struct err *e);

/* answer_spans.c */
int answer_run_span(struct answer_request *c, struct buf *out, struct err *e);
int answer_run_spans(struct answer_request *c, struct buf *out, struct err *e);
int answer_run_trace(struct answer_request *c, struct buf *out, struct err *e);
int answer_run_span_names(struct answer_request *c, struct buf *out, struct err *e);
int answer_run_span_heatmap(struct answer_request *c, struct buf *out, struct err *e);

/* answer_times.c */
int answer_run_heatmap(struct answer_request *c, struct buf *out, struct err *e);
int answer_run_chart(struct answer_request *c, struct buf *out, struct err *e);

#endif
