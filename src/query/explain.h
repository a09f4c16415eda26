/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Explain: what a person should know first about a selection, in sentences: what dominates it, what changed since when, and
 * how sure that is. Each sentence is the answer of a question that can be asked by itself: top, drift, verdict, leaks and
 * trends. A sentence that the samples do not support is left out; with few samples there is one that says so.
 */
#ifndef QUERY_EXPLAIN_H
#define QUERY_EXPLAIN_H

#include "query/query.h"

struct span_index;

enum explain_kind {
    EXPLAIN_FEW,       /* too few samples to say anything */
    EXPLAIN_DOMINATES, /* what most of it is spent in */
    EXPLAIN_SPREAD,    /* nothing dominates */
    EXPLAIN_DEPLOY,    /* the verdict on a deploy in the range */
    EXPLAIN_STEP,      /* the level changed at one moment */
    EXPLAIN_GROWS,     /* what is in use grows */
    EXPLAIN_SPIKE,     /* single points far above the usual */
};
extern const char *const explain_kinds[]; /* "few_samples" …; NULL at the end */

struct explain_fact {
    enum explain_kind kind;
    bool warning; /* worse, growing, or a rise */
    char sentence[500];
    char at_text[32]; /* the time as it is in the sentence, to be replaced by local time; empty: none */
    int64_t at_ns;
    struct str function, file; /* what it is about, and its heaviest line; empty: not known */
    int64_t line;
    double share; /* of the selection, 0 to 1; 0: not of a part */
};

enum { EXPLAIN_FACTS = 4 };

struct explain {
    struct arena arena;
    struct explain_fact *v; /* at most EXPLAIN_FACTS: what changed first, then what dominates */
    uint32_t n;
    struct str type;
};

struct explain_ask {
    const struct query_params *like; /* what the query was compiled from */
    struct span_index *spans;        /* of requests; may be NULL */
};

/* Of a selection of spans, of one profile or of some frames it says only what dominates, of an empty one nothing. */
int query_explain(struct store *s, struct query *q, const struct explain_ask *ask, struct explain *ret, struct err *e);
void explain_done(struct explain *x);

#endif
