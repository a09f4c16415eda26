/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small messages in two forms, protobuf and its JSON: what Connect clients (Grafana) speak. A field is written once, with
 * its number and its JSON name; whether bytes or text come out is the writer's state.
 *
 *     dual_begin(w, 1, "flamegraph");  dual_i64(w, 3, "total", 7);  dual_end(w);
 *     dual_list(w, "names");  dual_str(w, 1, NULL, s) ...;  dual_list_end(w);
 *
 * Reading is the other way round: one table of fields fills one flat struct.
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
    size_t start[DUAL_DEPTH_MAX * 2]; /* protobuf: where the length of the open message stands */
};

/* The outermost message. */
void dual_open(struct dual *w, struct buf *out, bool json);
void dual_close(struct dual *w);
/* A message field; name NULL inside a list. */
void dual_begin(struct dual *w, uint32_t field, const char *name);
void dual_end(struct dual *w);
/* A repeated field: only JSON sees the brackets. */
void dual_list(struct dual *w, const char *name);
void dual_list_end(struct dual *w);
void dual_str(struct dual *w, uint32_t field, const char *name, struct str v);
void dual_i64(struct dual *w, uint32_t field, const char *name, int64_t v); /* a string in JSON, as proto3 says */
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
    const char *other; /* another spelling that is taken, or NULL */
    enum dual_kind kind;
    size_t offset;
    const struct dual_field *message; /* DUAL_MESSAGE: fields of the same flat struct, offsets counted from its start */
};

/* Fills out, which must be zeroed; strings point into text or the arena. Unknown fields are skipped. */
int dual_read(const struct dual_field *fields, struct str text, bool json, struct arena *a, void *out, struct err *e);

#endif
