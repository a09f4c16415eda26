/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JavaScript functions of a process with V8 (Node, Electron), read from its memory: interpreted, baseline and optimised code alike.
 *
 *   frame ─► function ─► SharedFunctionInfo ─┬► its name, or a ScopeInfo with its name and where it begins in the source
 *                                            ├► script: file, source
 *                                            └► bytecode ─► positions of instructions in the source
 *   address ─► machine code ─► positions, and the functions that were inlined there
 *
 * A tagged word is a pointer when its lowest bits are 01, else a small integer in its upper half. V8 itself describes the layout
 * (v8_image.h). The memory may hold anything: every object is checked by its type before it is used, and every table has a limit.
 * What is read of functions and code later than the sample is checked against the sample by the caller (lang_v8js.c).
 */
#ifndef AGENT_LANG_V8_H
#define AGENT_LANG_V8_H

#include "agent/lang/v8js/v8_image.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "proc/proc_memory.h"

enum { V8_INLINED_MAX = 32, V8_LINES_MAX = 4 << 20, V8_SOURCE_MAX = 64 << 20 };

struct v8 {
    int32_t v[V8_VALUES_N];
    struct v8_range entry, handlers; /* ELF addresses: the code may be mapped more than once */
};

struct v8_reader {
    const struct v8 *v8;
    const struct proc_memory *m;
    const struct proc_memory *maps; /* where the maps of objects are read, which neither move nor change */
    uint64_t *stream_map;           /* the map of machine code: 0 until it was found once */
};

/* A function, as its SharedFunctionInfo describes it. */
struct v8_function {
    struct str name, file; /* in the arena; {NULL}: none */
    uint64_t script;       /* the object; its number follows */
    uint32_t script_id;
    int32_t start; /* where it begins in the source; -1: not known */
    uint64_t content;
};

/* A place in a function: of a frame, or of a call that was inlined into it. */
struct v8_place {
    uint64_t shared;  /* 0: the function of the frame */
    int32_t position; /* in the source; -1: not known */
};

struct v8_lines {
    uint32_t *ends; /* positions of line ends, ascending */
    size_t n, cap;
    int32_t offset; /* the line of the source's first line, from 0 */
};

/* Reads the values. 0; -EBADMSG when they make no sense, -ENOTSUP when the layout of frames is an unknown one. */
int v8_read(const struct v8_image *image, uint64_t bias, const struct proc_memory *m, struct v8 *ret, struct err *e);
/* The SharedFunctionInfo of a JSFunction; 0 when it is none. */
uint64_t v8_shared_of(const struct v8_reader *r, uint64_t function);
/* Reads a SharedFunctionInfo of a function that has a script. -EBADMSG when there is none at this address. a: for the texts; NULL: only
 * the numbers are read. */
int v8_function_read(const struct v8_reader *r, uint64_t shared, struct arena *a, struct v8_function *ret);

/* The place of a bytecode offset, as a frame of the interpreter has it; -1: not known. */
int32_t v8_bytecode_position(const struct v8_reader *r, uint64_t shared, uint64_t offset);
/* The places at an address in machine code of the function, innermost inlined call first, the function itself last. Returns their
 * number; 0 when there is no such code there. leaf: the instruction was interrupted; else the address is after a call. */
uint32_t v8_code_places(const struct v8_reader *r, uint64_t shared, uint64_t pc, bool leaf,
                        struct v8_place ret[V8_INLINED_MAX]);
/* Whether a frame at this address, with this word where the interpreter keeps its bytecode, can be one of the function. */
bool v8_is_frame_of(const struct v8_reader *r, uint64_t shared, uint64_t pc, uint64_t bytecode);
/* Reads where the lines of a script end; ret->ends is to be freed. 0, -EAGAIN or -EBADMSG. */
int v8_lines_read(const struct v8_reader *r, uint64_t script, struct v8_lines *ret);
/* The line of a position, from 1. */
int64_t v8_line(const struct v8_lines *l, int32_t position);

/* --- parts --- */
bool v8_is_object(uint64_t word);
uint64_t v8_field(const struct v8_reader *r, uint64_t object, int32_t offset);
/* The type of an object; -1 when it is none. */
int v8_type(const struct v8_reader *r, uint64_t object);

#endif
