/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small messages in two forms, protobuf and its JSON mapping, as used by Connect clients (Grafana). The code that
 * writes a message names each field once, with its number and its JSON name; the writer's state decides which form is
 * produced.
 *
 *     dual_begin(w, 1, "flamegraph");  dual_i64(w, 3, "total", 7);  dual_end(w);
 *     dual_list(w, "names");  dual_str(w, 1, NULL, s) ...;  dual_list_end(w);
 *
 * For reading, one table of fields fills one flat struct.
 */
#ifndef SERVER_DUAL_H
#define SERVER_DUAL_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

/* --- writing --- */
enum { DUAL_DEPTH_MAX = 8 };

struct dual {
    struct buf *out;
    bool json;
    int depth;
    bool first[DUAL_DEPTH_MAX * 2];
    size_t start[DUAL_DEPTH_MAX * 2]; /* protobuf: position of the length of each open message */
};

/* Starts the outermost message. */
void dual_open(struct dual *w, struct buf *out, bool json);
void dual_close(struct dual *w);
/* Starts a message field; name is NULL inside a list. */
void dual_begin(struct dual *w, uint32_t field, const char *name);
void dual_end(struct dual *w);
/* Starts a repeated field; writes brackets in JSON and nothing in protobuf. */
void dual_list(struct dual *w, const char *name);
void dual_list_end(struct dual *w);
void dual_str(struct dual *w, uint32_t field, const char *name, struct str v);
void dual_i64(struct dual *w, uint32_t field, const char *name, int64_t v); /* a string in JSON, as proto3 requires */
void dual_i32(struct dual *w, uint32_t field, const char *name, int32_t v); /* a number in JSON */
void dual_double(struct dual *w, uint32_t field, const char *name, double v);
void dual_bool(struct dual *w, uint32_t field, const char *name, bool v);
void dual_i64s(struct dual *w, uint32_t field, const char *name, const int64_t *v, size_t n); /* packed */

/* --- reading --- */
enum dual_kind { DUAL_STR, DUAL_I64, DUAL_DOUBLE, DUAL_STRS, DUAL_MESSAGE };
enum { DUAL_STRS_MAX = 64 };

struct dual_strs {
    struct str v[DUAL_STRS_MAX];
    uint32_t n;
};

struct dual_field {
    uint32_t field;
    const char *name;  /* JSON; "start" */
    const char *other; /* alternative spelling that is accepted, or NULL */
    enum dual_kind kind;
    size_t offset;
    const struct dual_field *message; /* DUAL_MESSAGE: fields of the same flat struct, offsets counted from its start */
};

/* Fills out, which must be zeroed; strings point into text or the arena. Unknown fields are skipped. */
int dual_read(const struct dual_field *fields, struct str text, bool json, struct arena *a, void *out, struct err *e);

#endif
