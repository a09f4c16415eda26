/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small messages in two forms, protobuf and its JSON mapping, as used by Connect clients (Grafana). The code that
 * writes a message names each field once, with its number and its JSON name; the writer's state decides which form is
 * produced.
 *
 *     pbjson_begin(w, 1, "flamegraph");  pbjson_i64(w, 3, "total", 7);  pbjson_end(w);
 *     pbjson_list(w, "names");  pbjson_str(w, 1, NULL, s) ...;  pbjson_list_end(w);
 *
 * For reading, one table of fields fills one flat struct.
 */
#ifndef SERVER_PBJSON_H
#define SERVER_PBJSON_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

/* --- writing --- */
enum { PBJSON_DEPTH_MAX = 8 };

struct pbjson {
    struct buf *out;
    bool json;
    int depth;
    bool first[PBJSON_DEPTH_MAX * 2];
    size_t start[PBJSON_DEPTH_MAX * 2]; /* protobuf: position of the length of each open message */
};

/* Starts the outermost message. */
void pbjson_open(struct pbjson *w, struct buf *out, bool json);
void pbjson_close(struct pbjson *w);
/* Starts a message field; name is NULL inside a list. */
void pbjson_begin(struct pbjson *w, uint32_t field, const char *name);
void pbjson_end(struct pbjson *w);
/* Starts a repeated field; writes brackets in JSON and nothing in protobuf. */
void pbjson_list(struct pbjson *w, const char *name);
void pbjson_list_end(struct pbjson *w);
void pbjson_str(struct pbjson *w, uint32_t field, const char *name, struct str v);
void pbjson_i64(struct pbjson *w, uint32_t field, const char *name,
                int64_t v); /* a string in JSON, as proto3 requires */
void pbjson_i32(struct pbjson *w, uint32_t field, const char *name, int32_t v); /* a number in JSON */
void pbjson_double(struct pbjson *w, uint32_t field, const char *name, double v);
void pbjson_bool(struct pbjson *w, uint32_t field, const char *name, bool v);
void pbjson_i64s(struct pbjson *w, uint32_t field, const char *name, const int64_t *v, size_t n); /* packed */

/* --- reading --- */
enum pbjson_kind {
    PBJSON_STR,
    PBJSON_I64,
    PBJSON_BOOL, /* int64_t */
    PBJSON_ENUM, /* int64_t; in JSON a number or one of `names` */
    PBJSON_DOUBLE,
    PBJSON_STRS,
    PBJSON_STR_ADD, /* a string that is added to a list: the field of a repeated message */
    PBJSON_MESSAGE, /* also a repeated one, whose fields are then lists */
};
enum { PBJSON_STRS_MAX = 64 };

struct pbjson_strs {
    struct str v[PBJSON_STRS_MAX];
    uint32_t n;
};

struct pbjson_field {
    uint32_t field;
    const char *name;  /* JSON; "start" */
    const char *other; /* alternative spelling that is accepted, or NULL */
    enum pbjson_kind kind;
    size_t offset;
    const struct pbjson_field
        *message;             /* PBJSON_MESSAGE: fields of the same flat struct, offsets counted from its start */
    const char *const *names; /* PBJSON_ENUM: by value, NULL-terminated */
};

/* Fills out, which must be zeroed; strings point into text or the arena. Unknown fields are skipped. */
int pbjson_read(const struct pbjson_field *fields, struct str text, bool json, struct arena *a, void *out,
                struct err *e);

#endif
