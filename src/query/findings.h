/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Findings: known patterns of waste in a selection, each with the frames that show it. The rules are one table in
 * findings.c: regular expressions on the names of functions, and the share from which a finding is worth a sentence.
 * They find what is often worth a look, not what is wrong.
 */
#ifndef QUERY_FINDINGS_H
#define QUERY_FINDINGS_H

#include "query/query.h"

enum { FINDING_FRAMES = 5 };

struct finding_frame {
    struct str function; /* a function that matches, or the caller that the rule blames */
    double share;
};

struct finding {
    const char *rule;  /* "gc" */
    const char *title; /* "Garbage collection" */
    bool warning;      /* over the rule's upper limit */
    double share;      /* of the selection, 0 to 1: stacks that match, each once */
    char sentence[400];
    struct finding_frame *frames; /* largest first */
    uint32_t n_frames;
    double rank; /* share relative to the rule's limit */
};

struct findings {
    struct arena arena;
    struct finding *v; /* the largest relative to its limit first */
    uint32_t n;
    struct str type, unit;
    int64_t total;
};

/* Looks for the rules that apply to the query's type. */
int query_findings(struct store *s, struct query *q, struct findings *ret, struct err *e);
void findings_done(struct findings *f);

#endif
