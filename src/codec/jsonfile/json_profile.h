/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the decoders of JSON formats share: the state of one decoding, tables of numbers, and trees of calls, whose nodes
 * name their parent and their frame.
 */
#ifndef CODEC_JSON_PROFILE_H
#define CODEC_JSON_PROFILE_H

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/map.h"
#include "codec/sample_sum.h"

struct builder;

struct json_profile {
    struct str text;
    size_t memory;
    struct arena arena; /* strings with escapes, and names */
    struct builder *b;
    struct sample_sum sum;
    uint32_t *path; /* scratch of json_profile_stack() */
    size_t cap_path;
    const char *format; /* for error messages */
};

/* The decoders: each adds its profiles to p->b, which has a resource and a scope. */
int cpuprofile_read(struct json_profile *p, struct err *e);
int heapprofile_read(struct json_profile *p, struct err *e);
int chrome_trace_read(struct json_profile *p, struct err *e);
int speedscope_read(struct json_profile *p, struct err *e);
int firefox_read(struct json_profile *p, struct err *e);
int gprof2dot_read(struct json_profile *p, struct err *e);

/* An error message about malformed JSON, in the name of the format. */
int json_profile_error(const struct json_profile *p, const struct json *j, struct err *e);
/* The most elements of `size` bytes that a table may have. */
size_t json_profile_limit(const struct json_profile *p, size_t size);

/* --- frames --- */

struct json_frame {
    struct str name, file;
    int64_t line, column, start_line; /* 0 = not known */
    uint32_t type;                    /* attribute profile.frame.type of the builder; 0 = none */
    uint32_t mapping;
    uint64_t address;
};

/* The builder's location for a frame; one without a name has no line. */
uint32_t json_profile_location(struct json_profile *p, const struct json_frame *f);

/* --- trees of calls --- */

struct call_node {
    uint32_t parent;   /* its index plus one; 0 = none */
    uint32_t location; /* 0 = the node is a root, not a frame */
    uint32_t stack;    /* the builder's, plus one, once it is known */
};

struct call_nodes {
    struct call_node *v;
    size_t n, cap;
};

/* The builder's stack for a node, which is in range. -EINVAL if its parents do not end. */
int json_profile_stack(struct json_profile *p, struct call_nodes *nodes, size_t node, uint32_t *ret);

/* --- numbers --- */

struct json_numbers {
    double *v;
    size_t n, cap;
};

/* Reads an array of numbers; null, and what is not a number, becomes NAN. A value that is not an array leaves it empty. */
int json_numbers_read(struct json_profile *p, struct json *j, struct json_numbers *ret);
void json_numbers_done(struct json_numbers *n);
/* Element i as an index below limit; -1 if it is absent or out of range. */
int64_t json_numbers_index(const struct json_numbers *n, size_t i, size_t limit);
/* Element i; 0 if it is absent. */
double json_numbers_at(const struct json_numbers *n, size_t i);
/* v * scale rounded to an integer, within the range of values; 0 for NAN. */
int64_t json_profile_round(double v, double scale);

/* --- strings --- */

struct json_texts {
    struct str *v;
    size_t n, cap;
};

int json_texts_read(struct json_profile *p, struct json *j, struct json_texts *ret);

#endif
