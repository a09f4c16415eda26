/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages of OTLP's dictionary as tables of fields, for reading and writing JSON and for writing protobuf. Field i of
 * a message has the number i + 1. Reading protobuf is done for every request and is written out by hand, as samples are.
 */
#ifndef CODEC_OTLP_FIELDS_H
#define CODEC_OTLP_FIELDS_H

#include "base/wire.h"
#include "model/batch.h"

enum otlp_kind {
    OTLP_NONE,
    OTLP_U64,
    OTLP_I64,
    OTLP_REF,          /* an index of another table: uint32_t; none means the sender's entry 0 */
    OTLP_REF_OPTIONAL, /* the same; 0 means none */
    OTLP_REFS,         /* a list of indices of another table: struct run */
    OTLP_ID,           /* `size` bytes */
    OTLP_LINES,        /* the lines of a location */
    OTLP_VALUE,        /* the value of an attribute */
};

/* The tables that fields refer to. */
enum otlp_target { TO_NOTHING, TO_STRINGS, TO_MAPPINGS, TO_FUNCTIONS, TO_LOCATIONS, TO_ATTRS, OTLP_TARGETS };

struct otlp_field {
    const char *name; /* in protobuf */
    struct str key;   /* in JSON */
    uint8_t kind, to, size;
    uint16_t offset; /* in the struct of the entry */
};

struct otlp_message {
    uint32_t size; /* of the struct, a multiple of 8 */
    uint32_t n;
    const struct otlp_field *required; /* the OTLP_REF field, NULL if there is none */
    struct otlp_field fields[5];
};

extern const struct otlp_message otlp_mapping, otlp_location, otlp_line, otlp_function, otlp_link, otlp_attr,
    otlp_stack;

/* Whether the entry has nothing but zeros, where references that are required have `shift` added. */
bool otlp_is_zero(const struct otlp_message *m, const void *entry, uint32_t shift);

#endif
