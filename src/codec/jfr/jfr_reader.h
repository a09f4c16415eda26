/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of the JFR decoder share. A recording is a sequence of chunks, each of which describes its own types:
 *
 *   header    68 bytes, big-endian: "FLR\0", major u16, minor u16, size u64, last checkpoint u64, metadata u64,
 *             start (Unix ns) u64, duration ns u64, start ticks u64, ticks per second u64, features u32 (1 = integers
 *             are compressed)
 *   event     size, type, then the fields of the type as the metadata lists them
 *   metadata  type 0: start, duration, id, strings, and a tree of elements: classes with their fields
 *   checkpoint  type 1: start, duration, delta, flags, then pools: type, and its constants with their keys
 *
 * Integers are LEB128 of at most nine bytes, where the ninth has eight bits. Positions are offsets into the input.
 * Constants are found by key when an event refers to them, and decoded then: the tables hold only their positions.
 *
 * A file can describe a type whose values take no bytes but much work (types within types): `steps` bounds the work by
 * the size of the chunk.
 */
#ifndef CODEC_JFR_READER_H
#define CODEC_JFR_READER_H

#include "base/arena.h"
#include "base/bytes.h"
#include "base/err.h"
#include "base/map.h"
#include "codec/sample_sum.h"

struct builder;

/* The fields that are read, by name. */
enum jfr_slot {
    JFR_SLOT_NONE,
    JFR_DURATION,
    JFR_START,
    JFR_THREAD, /* sampledThread, eventThread */
    JFR_STACK,
    JFR_STATE,
    JFR_SAMPLES,
    JFR_TIME_SPAN,
    JFR_TLAB_SIZE,
    JFR_ALLOCATION_SIZE,
    JFR_WEIGHT,
    JFR_SIZE,
    JFR_PERIOD,
    JFR_CONTEXT,
    JFR_SPAN_ID,
    JFR_SPAN_NAME,
    JFR_ID,
    JFR_NAME,
    JFR_VALUE,
    JFR_TYPE,
    JFR_METHOD,
    JFR_LINE,
    JFR_FRAMES,
    JFR_STRING,
    JFR_OS_NAME,
    JFR_JAVA_NAME,
    JFR_OS_THREAD,
    JFR_JAVA_THREAD,
    JFR_DESCRIPTION,
    JFR_SLOTS
};

/* What a class is to the decoder. */
enum jfr_role {
    JFR_ROLE_NONE,
    /* constants */
    JFR_STACK_TRACE,
    JFR_METHOD_TYPE,
    JFR_CLASS_TYPE,
    JFR_SYMBOL,
    JFR_THREAD_TYPE,
    JFR_THREAD_STATE,
    JFR_FRAME_TYPE,
    JFR_TEXT,
    JFR_ROLE_EVENT, /* events are those from here on */
    JFR_EXECUTION_SAMPLE = JFR_ROLE_EVENT,
    JFR_CPU_TIME_SAMPLE,
    JFR_NATIVE_SAMPLE,
    JFR_WALL_SAMPLE,
    JFR_ALLOC_IN_TLAB,
    JFR_ALLOC_OUTSIDE_TLAB,
    JFR_ALLOC_SAMPLE,
    JFR_LIVE_OBJECT,
    JFR_MALLOC,
    JFR_MONITOR_ENTER,
    JFR_THREAD_PARK,
    JFR_SETTING,
};

enum jfr_form { JFR_OBJECT, JFR_BYTE, JFR_INTEGER, JFR_FLOAT, JFR_DOUBLE, JFR_STRING_FORM };

struct jfr_field {
    uint64_t type;  /* id of its class */
    uint32_t class; /* its index, after all are known; UINT32_MAX = unknown */
    uint8_t slot;
    bool array, constant;
};

struct jfr_class {
    uint64_t id;
    uint8_t role, form;
    struct jfr_field *fields;
    size_t n_fields, cap_fields;
};

struct jfr_value {
    int64_t n;       /* a number, the key of a constant, or the length of an array */
    struct str text; /* of a string */
    size_t at;       /* of an array: position of its first element */
};

/* The fields of one value of a class. */
struct jfr_object {
    struct jfr_value v[JFR_SLOTS];
};

struct jfr_constant {
    uint64_t key;
    uint32_t class, at;
    uint32_t made, made_too; /* what the builder has for it, plus one; 0 = not yet built */
};

struct jfr_labels;

struct jfr_reader {
    struct str data;
    size_t memory;
    /* the chunk that is read */
    size_t start, end;
    int64_t ticks_per_s, start_ticks, start_ns; /* start_ns: when its first tick was; 0 = not known */
    uint64_t steps;
    struct arena arena; /* of the chunk: texts, and fields */
    struct jfr_class *classes;
    size_t n_classes, cap_classes;
    struct map class_map;
    struct jfr_constant *constants;
    size_t n_constants, cap_constants;
    struct map constant_map;
    /* the recording */
    struct builder *b;
    struct sample_sum sum;
    struct jfr_labels *labels;
    bool threads;
    int64_t time_ns, end_ns;
    int64_t cpu_period, wall_period, jdk_period, native_period; /* by settings; 0 = not known */
    bool wall_event;                                            /* async-profiler's event is wall */
    uint32_t event_name;                                        /* async-profiler's; a string of the builder */
    uint32_t *stack;
    size_t cap_stack;
    struct buf name;
};

/* --- jfr_metadata.c --- */

/* Reads the classes of a chunk from its metadata event, whose payload the cursor covers. */
int jfr_read_metadata(struct jfr_reader *r, struct cursor c, struct err *e);
void jfr_forget_metadata(struct jfr_reader *r);
/* The class with this id, or NULL. */
const struct jfr_class *jfr_class_by_id(const struct jfr_reader *r, uint64_t id);

/* --- jfr_value.c --- */

uint64_t jfr_get(struct cursor *c);
/* Reads a string. Without `want`, only skips it. A reference to the pool of strings is returned in n, and text is
 * empty. */
void jfr_get_text(struct jfr_reader *r, struct cursor *c, bool want, struct jfr_value *ret);
/* Reads all fields of a value of this class into ret, which may be NULL to skip it. */
void jfr_get_object(struct jfr_reader *r, struct cursor *c, const struct jfr_class *k, struct jfr_object *ret);
/* Counts n units of work; false, from then on, if the chunk has caused more than its size allows. */
bool jfr_spend(struct jfr_reader *r, uint64_t n);
/* A cursor from position `at` to the end of the chunk. */
struct cursor jfr_cursor(const struct jfr_reader *r, size_t at);

/* --- jfr_pool.c --- */

/* Notes the positions of the constants in a checkpoint event, whose payload the cursor covers. */
int jfr_read_checkpoint(struct jfr_reader *r, struct cursor c, struct err *e);
void jfr_forget_pools(struct jfr_reader *r);
/* The constant with this key of a class with this role, or NULL. */
struct jfr_constant *jfr_constant(struct jfr_reader *r, enum jfr_role role, uint64_t key);
/* Its fields; false if it is not there. */
bool jfr_look_up(struct jfr_reader *r, enum jfr_role role, uint64_t key, struct jfr_object *ret);
/* The text of a string, which may be a constant; and of a symbol, which is a constant that has a string. */
struct str jfr_string(struct jfr_reader *r, const struct jfr_value *v);
struct str jfr_symbol(struct jfr_reader *r, const struct jfr_value *v);

/* --- jfr_stack.c --- */

/* The builder's stack for the constant with this key; false if there is none. */
bool jfr_stack(struct jfr_reader *r, uint64_t key, uint32_t *ret);
/* Attributes of a sample: its thread, and the labels of its context. */
struct run jfr_attrs(struct jfr_reader *r, const struct jfr_object *event);

/* --- jfr_labels.c --- */

struct jfr_labels *jfr_labels_new(struct str bytes, size_t memory, int *ret_error, struct err *e);
void jfr_labels_free(struct jfr_labels *l);
/* Adds the attributes of a context to attrs, at most max; returns their number. */
uint32_t jfr_labels_of(const struct jfr_labels *l, const struct jfr_object *event, struct builder *b, uint32_t *attrs,
                       uint32_t max);

#endif
