/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One question by name, parameters by name, one answer as JSON: what `GET /api/v1/top?query=cpu&limit=10`,
 * `wick query top cpu --limit 10` and the MCP tool `top` have in common. Each question is defined only in the table of
 * questions; the API's routes, the command's help and the OpenAPI page come from it.
 */
#ifndef QUERY_ANSWER_H
#define QUERY_ANSWER_H

#include "query/query.h"

struct record_field;
struct span_index;

/* Which spans the index (span/span_index.h) selected for an answer. */
struct answer_picked {
    bool by_index;           /* false: nothing below is set */
    uint32_t selected, rest; /* spans; rest: what they are compared with */
    int64_t duration;        /* sum of the selected */
    int64_t threshold;       /* the shortest of the slowest */
    uint32_t one_in;         /* only one in so many traces was looked at, because there are so many */
    bool sampled;            /* one_in is more than 1 */
};

struct answer_request {
    const struct question *what; /* set by answer() */
    struct store *store;
    struct span_index *spans; /* of the traces that were received; may be NULL */
    const char *trace_link;   /* template of a URL that shows a trace elsewhere; may be NULL */
    struct names *names;      /* of frames that lack one (names.h); may be NULL */
    const char *tenant;
    int64_t now;
    size_t memory_limit;
    const atomic_bool *cancel;                        /* may be NULL */
    bool binary;                                      /* trees in the binary form */
    struct arena *arena;                              /* for intermediate results */
    struct str (*param)(void *ctx, const char *name); /* empty when absent */
    void *ctx;
    struct store_notes notes;    /* set by answer(): notes for the reader; the answer contains them as well */
    struct answer_picked picked; /* set by answer(), too */
};

struct answer_param {
    const char *name, *help;
};

struct question {
    const char *name;          /* "top" */
    const char *summary;       /* one line */
    const char *const *params; /* names, besides the common ones; NULL-terminated */
    bool common;               /* takes query, from, to */
    bool diff;                 /* takes base_query, base_from, base_to */
    bool tree;                 /* answers with a tree: binary form possible */
    int (*run)(struct answer_request *q, struct buf *out, struct err *e);
    const struct record_field *answer; /* what it answers, see answer_fields.h */
    const char *type;          /* that a selector without one means; NULL: cpu */
};

extern const struct question questions[]; /* ends with name == NULL */
const struct question *question_find(struct str name);
/* What a parameter means, for help and the API's page. */
extern const struct answer_param answer_params[]; /* ends with name == NULL */
const char *answer_param_help(const char *name);

/* A page of Markdown about all questions: their parameters and answers. */
void answer_reference(struct buf *out);

/* Appends the answer to out. */
int answer(const struct question *what, struct answer_request *q, struct buf *out, struct err *e);

#endif
