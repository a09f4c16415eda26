/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Python stacks of another process, CPython 3.9 to 3.14, read from its memory: nothing is loaded into it, nothing
 * written.
 *
 *   _PyRuntime ─► interpreter ─► … every interpreter
 *                   └► thread state ─► … every thread
 *                        └► frame ─► the frame that called it ─► …
 *                             └► code object: name, file, line table
 *
 * Offsets: 3.13 and later publish them (_Py_DebugOffsets, at the start of _PyRuntime); for older versions there are
 * tables here, which are the same for every release of a minor version.
 *
 * From 3.11 on, one native frame of the interpreter's loop (_PyEval_EvalFrameDefault) runs many Python frames. A frame
 * with `entry` set is the outermost one of its native frame; this is used to merge Python and native frames.
 *
 * A process that runs while it is read may show inconsistent state: everything is bounded and checked, and an invalid
 * stack is truncated. These functions keep no state of their own; any thread may call them.
 */
#ifndef AGENT_LANG_PYTHON_H
#define AGENT_LANG_PYTHON_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"
#include "elf/elf.h"
#include "proc/proc_memory.h"

enum {
    PYTHON_MINOR_MIN = 9,
    PYTHON_MINOR_MAX = 14,
    PYTHON_THREADS_MAX = 65536,
    PYTHON_INTERPRETERS_MAX = 1024,
    PYTHON_FRAMES_MAX = 65536, /* walked, of one thread */
    PYTHON_STRING_MAX = 4096,  /* characters of a name */
    PYTHON_TABLE_MAX = 1 << 20 /* bytes of a line table */
};

/* All in bytes from the start of their structure. */
struct python_offsets {
    uint16_t minor;
    uint16_t interpreters_head;              /* of _PyRuntime */
    uint16_t interp_next, interp_threads;    /* of an interpreter */
    uint16_t thread_next, thread_id;         /* of a thread state; its id is pthread_self(), the thread pointer */
    uint16_t thread_frame;                   /* the newest frame, or the C frame that points to it */
    uint16_t cframe_frame;                   /* of the C frame; PYTHON_NONE: there is none between */
    uint16_t frame_previous, frame_code;     /* of a frame */
    uint16_t frame_instr;                    /* pointer to the instruction, or its number (32 bits) up to 3.10 */
    uint16_t frame_owner, frame_entry;       /* a byte each; PYTHON_NONE: not there */
    uint16_t code_filename, code_name;       /* of a code object */
    uint16_t code_qualname;                  /* PYTHON_NONE up to 3.10 */
    uint16_t code_linetable, code_firstline; /* a bytes object; 32 bits */
    uint16_t code_start;                     /* first instruction; PYTHON_NONE: not needed */
    uint16_t str_length, str_state;          /* of a str */
    uint16_t str_kind;                       /* the bit of state where its kind begins */
    uint16_t str_ascii, str_compact;         /* where the characters of an ASCII one begin, and those of another */
    uint16_t bytes_size, bytes_data;
};

enum { PYTHON_NONE = UINT16_MAX };

/* Code of the interpreter's loop: of one function, or of its copies. */
enum { PYTHON_LOOPS_MAX = 16 };
struct python_loops {
    struct python_loop {
        uint64_t lo, hi;
    } v[PYTHON_LOOPS_MAX];
    unsigned n;
};

/* What is found in a file: whether it has _PyRuntime, and its version. ELF addresses. */
struct python_image {
    uint64_t runtime; /* of _PyRuntime */
    uint64_t version; /* of Py_Version (3.11 and later), 0 when it has no symbol */
    unsigned minor;   /* from the file's name, 0 when it has no version */
    struct python_types {
        uint64_t code, str, bytes; /* their type objects; 0: no symbol */
    } types;
    struct python_loops loops;
};

struct python {
    struct python_offsets at;
    uint64_t runtime, bias;    /* address in the process; minus that of the file */
    uint32_t version;          /* PY_VERSION_HEX, as far as known: 0x030b0000 */
    struct python_types types; /* in the process */
    struct python_loops loops; /* in the process */
};

struct agent_python;

struct python_frame {
    uint64_t code;
    int64_t instr; /* byte offset into the code's instructions; negative before the first */
    bool entry;    /* the outermost frame of its native one */
};

struct python_code {
    struct str name, filename; /* UTF-8, in the arena; the qualified name from 3.11 on */
    int32_t first_line;
    struct str linetable;
};

/* Checks whether a file contains an interpreter. path is only used for the version. */
bool python_probe(const struct elf_file *f, struct str path, struct python_image *ret);
/* bias: address in the process minus ELF address. -ENOENT when there is no interpreter, -ENOTSUP with an error message
 * for an unknown version. */
int python_attach(const struct proc_memory *m, const struct python_image *image, uint64_t bias, struct python *ret,
                  struct err *e);

/* Calls f for every thread state until it returns a value other than 0, which is returned; negative errno when memory
 * cannot be read, -ELOOP when a list is a circle. thread_id is the thread pointer (fs base) of the thread. */
int python_each_thread(const struct python *py, const struct proc_memory *m,
                       int (*f)(void *data, uint64_t state, uint64_t thread_id), void *data);
/* The thread's frames, newest first. *ret_n is their number in v, at most max. Returns 1 when there are more or the
 * chain is broken, 0 when v has all of them, negative when nothing can be read. */
int python_frames(const struct python *py, const struct proc_memory *m, uint64_t state, struct python_frame *v,
                  uint32_t max, uint32_t *ret_n);
/* The content of a code object (python_abi.h) as it is now; 0 when it cannot be read. */
uint64_t python_content(const struct python *py, const struct proc_memory *m, uint64_t code);
/* Whether the interpreter made the code object for itself (3.13 and later: _Py_InitCleanup). */
bool python_is_internal(const struct python *py, const struct proc_memory *m, uint64_t code);
/* Reads a code object. -EBADMSG when there is none at this address (any more): its fields have the types and the count of
 * references of live objects. */
int python_code_read(const struct python *py, const struct proc_memory *m, uint64_t code, struct arena *a,
                     struct python_code *ret);
/* The same, only if its content is the given one, before and after it is read. */
int python_code_read_if(const struct python *py, const struct proc_memory *m, uint64_t code, uint64_t content,
                        struct arena *a, struct python_code *ret);
/* Where things are, for the BPF side. */
void python_record(const struct python *py, struct agent_python *ret);
/* The line of an instruction, 0 when it has none. */
int64_t python_code_line(const struct python *py, const struct python_code *c, int64_t instr);

/* Whether the symbol of the interpreter's loop is not enough, so that the loop has to be searched for in the file, with
 * the instruction of a shim frame as an ELF address (-EAGAIN while no thread has a shim, another
 * negative errno when it is not found). The number of frames that are read is limited for all threads together. */
bool python_loops_wanted(const struct python *py);
int python_shim_instr(const struct python *py, const struct proc_memory *m, uint64_t *ret);
void python_loops_find(const struct elf_file *f, uint64_t shim_instr, struct python_loops *ret);
void python_loops_add(struct python_loops *l, uint64_t lo, uint64_t hi);
bool python_loops_have(const struct python_loops *l, uint64_t address);
/* Sets the loops of the file, for the process. */
void python_loops_set(struct python *py, const struct python_loops *l);

/* --- parts, for tests --- */
/* false when the minor version is not in the tables. */
bool python_offsets_of(unsigned minor, struct python_offsets *ret);
/* From the first n bytes of _PyRuntime: _Py_DebugOffsets of 3.13 and 3.14. -ENODATA when it is absent, -ENOTSUP for
 * another version, -EBADMSG when its numbers are invalid. */
int python_offsets_parse(const void *p, size_t n, struct python_offsets *ret, uint32_t *ret_version);
enum { PYTHON_DEBUG_OFFSETS = 760 }; /* bytes to pass: those of 3.14 */

#endif
