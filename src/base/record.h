/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records: what a struct looks like where it crosses an edge of the program, described once. A table gives for each field its
 * name, its kind, where it is in the struct, its limit and a line of help. Writing and reading JSON, tables of text for people
 * (client/record_text.h), the JSON schema of the API's description and the reference page come from it:
 *
 *     static const struct record_field note_fields[] = {
 *         {"id", RECORD_STR, offsetof(struct note, id), .flags = RECORD_OURS},
 *         {"text", RECORD_STR, offsetof(struct note, text), 2000, "what is shown", RECORD_REQUIRED},
 *         {0},
 *     };
 *
 * Reading checks limits, kinds and required fields, and says where the error is: "notes[3].text: longer than 2000 bytes at
 * byte 812". Text is a slice of what was read, or in the arena.
 */
#ifndef BASE_RECORD_H
#define BASE_RECORD_H

#include <stddef.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

struct json;

enum field_kind {
    RECORD_END,      /* ends a table */
    RECORD_STR,      /* struct str; limit: bytes */
    RECORD_TEXT,     /* const char *; NULL is written as "", and never read; limit: bytes */
    RECORD_CHARS,    /* char[size] with a NUL */
    RECORD_BOOL,     /* bool */
    RECORD_INT,      /* int64_t; limit: the largest, of what is read; the least is then 0 */
    RECORD_COUNT,    /* uint64_t; limit as above */
    RECORD_U32,      /* uint32_t; limit as above */
    RECORD_NUMBER,   /* double; limit: significant digits that are written, 0: all of them; NaN is null */
    RECORD_PAIR,     /* int64_t[2] and, at the offset size, the uint32_t that says how many: 5 or [5,7] */
    RECORD_NUMBERS2, /* double[2] */
    RECORD_NS, /* int64_t nanoseconds, in JSON as a string of digits; 0 to CLOCK_MAX; limit: digits of a second that people
                       see */
    RECORD_TIME,    /* the same as RFC 3339; null is 0 */
    RECORD_ID,      /* uint64_t as 16 hexadecimal digits; with a size two of them */
    RECORD_BYTES,   /* uint8_t[size] as hexadecimal digits */
    RECORD_WORD,    /* an enum that counts from 0, by its words; with the size 1 a bool or uint8_t */
    RECORD_STRS,    /* a list of struct str; limit: how many */
    RECORD_INTS,    /* a list of int64_t */
    RECORD_NUMBERS, /* a list of double */
    RECORD_LISTS,   /* a list of struct record_list of int64_t */
    RECORD_MAP,     /* a list of struct record_entry, as an object */
    RECORD_ONE,     /* a struct with its own fields */
    RECORD_INLINE,  /* a struct whose fields are written as if they were the table's own */
    RECORD_MAYBE,   /* a pointer to one; NULL: left out */
    RECORD_LIST,    /* a list of structs of size bytes; limit: how many */
};

enum record_flags {
    RECORD_REQUIRED = 1, /* an error when it is missing or empty in what is read */
    RECORD_SPARSE = 2,   /* left out of what is written when it is empty or 0 */
    RECORD_OURS = 4,     /* set by the program: ignored in what a client sends */
};

/* What a number or text means: how people read it, and what a page need not guess. */
enum record_unit {
    UNIT_NONE,
    UNIT_VALUE,  /* in the unit of the answer: nanoseconds, bytes, a count */
    UNIT_NS,     /* nanoseconds, of a duration */
    UNIT_SHARE,  /* 0 to 1 */
    UNIT_POINTS, /* percentage points */
    UNIT_CORES,
    UNIT_P,   /* a probability */
    UNIT_FIT, /* r squared */
};

struct record_field {
    const char *name;
    enum field_kind kind;
    uint32_t offset;
    uint64_t limit;
    const char *help; /* one line */
    uint8_t flags;
    uint8_t unit;             /* enum record_unit */
    uint8_t column;           /* of a table for people, from 1 on; 0: not in it */
    const char *heading;      /* of the column, where it is not the name */
    const char *const *words; /* RECORD_WORD: NULL-terminated */
    const struct record_field *fields;
    uint32_t size; /* of RECORD_CHARS, RECORD_BYTES, RECORD_MAYBE and RECORD_LIST; of others see there */
    uint32_t when; /* offset of a bool: the field is written if it is true, and what is read sets it; 0: always */
};

/* A list is a pointer to its items and, directly after it, a uint32_t: this one, or `struct note *v; uint32_t n;`. */
struct record_list {
    void *v;
    uint32_t n;
};

struct record_list record_list_at(const void *at);

struct record_entry {
    struct str name, value;
};

enum record_source {
    RECORD_FILE,   /* written by the program, maybe by a later version: what is unknown is skipped */
    RECORD_CLIENT, /* a request: what is unknown is an error */
    RECORD_ANSWER, /* of a server, maybe of a later version: words that are unknown are the first, too */
};

/* The record as an object; record_put_fields() without the braces, with a comma before it unless *first. */
void record_put(struct buf *out, const struct record_field *fields, const void *record);
void record_put_fields(struct buf *out, bool *first, const struct record_field *fields, const void *record);
/* Records of size bytes as an array. */
void record_put_list(struct buf *out, const struct record_field *fields, size_t size,
                     const struct record_list *records);
/* Reads all of text into *ret, which is zeroed by the caller. -EINVAL, -ENOMEM; *ret may then be half read. */
int record_read(struct str text, const struct record_field *fields, enum record_source from, struct arena *a, void *ret,
                struct err *e);
/* The same for a text that is one value, such as a list; of the field only kind, fields, size and limit count. */
int record_read_value(struct str text, const struct record_field *f, enum record_source from, struct arena *a,
                      void *ret, struct err *e);
void record_put_value(struct buf *out, const struct record_field *f, const void *value);
/* The JSON schema of the record, and of a value. Units are in it as x-unit. */
void record_schema(struct buf *out, const struct record_field *fields);
void record_value_schema(struct buf *out, const struct record_field *f);
const char *record_unit_name(enum record_unit u); /* NULL for none */
/* The names in a value in one line, a[b, c]; and a Markdown list of the fields with what they mean. */
void record_outline(struct buf *out, const struct record_field *f);
void record_reference(struct buf *out, const struct record_field *fields, unsigned depth);

#endif
