/* SPDX-License-Identifier: Apache-2.0 */
/*
 * (binary, addresses) -> frames. Names, lines and inlines are attributes of a location (build id, ELF address) that can
 * be requested at any time: by the report on a file, by the server at query time, by the agent or by a processor.
 *
 * ELF and DWARF are hostile input, so `wick serve` implements this in a separate process over a socket pair; files of
 * the local machine that a user named on the command line are read in-process. Both implement this interface.
 *
 * One request is one binary. Addresses are ELF virtual addresses. The answer has, for each address in order, its frames
 * innermost inlined first: zero frames means unknown. Strings live until the answer is freed. A caller that walks up a
 * stack asks for return addresses minus one.
 */
#ifndef MODEL_SYMBOLIZER_H
#define MODEL_SYMBOLIZER_H

#include <errno.h>
#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

struct symbol_frame {
    struct str function;    /* demangled */
    struct str system_name; /* as in the symbol table */
    struct str file;        /* absolute where the debug information has it so */
    int64_t line, column, start_line;
    bool inlined; /* this frame was inlined into the next one of the same address */
};

enum symbol_quality { SYMBOLS_NONE, SYMBOLS_NAMES, SYMBOLS_LINES }; /* nothing found; symbol table; DWARF */

struct symbol_answer {
    struct symbol_frame *frames;
    uint32_t *first; /* n_addresses + 1: frames of address i are [first[i], first[i + 1]) */
    uint32_t n_addresses;
    enum symbol_quality quality;
    struct str build_id; /* of the binary that answered */
    struct arena arena;
};

struct symbol_request {
    struct str path;     /* where the binary may be; a hint, may be empty */
    struct str build_id; /* hex; when both are given the file's id must agree */
    struct str owner;    /* the owner of the file (a tenant): each owner has a share of the open files. May be empty */
    const uint64_t *addresses;
    uint32_t n_addresses; /* 0: the file is only examined, and not kept open */
    bool lines;           /* files, lines and inlines too, not names alone */
    const int *fd;        /* NULL, or the binary itself: then path is its name, beside which debug files may be */
};

struct symbolizer {
    /* Fills *ret, to be freed with symbol_answer_free(). When the binary is not found, returns -ENOENT with an error
     * message. */
    int (*resolve)(struct symbolizer *s, const struct symbol_request *q, struct symbol_answer **ret, struct err *e);
    void (*free)(struct symbolizer *s);
    /* For callers that must not block; all NULL where no other process does the work. One request at a time: ask()
     * keeps no reference to q, answer() returns -EAGAIN until the answer is there. */
    int (*ask)(struct symbolizer *s, const struct symbol_request *q, struct err *e);
    int (*answer)(struct symbolizer *s, struct symbol_answer **ret, struct err *e);
    int64_t (*cpu_ns)(struct symbolizer *s); /* CPU time spent so far in the other process */
    void (*rest)(struct symbolizer *s);      /* frees all memory; the next request takes longer */
};

static inline int symbolizer_resolve(struct symbolizer *s, const struct symbol_request *q, struct symbol_answer **ret,
                                     struct err *e)
{
    return s->resolve(s, q, ret, e);
}

/* Whether a request that failed like this may succeed if it is made again: it took too long, or the symbolizer crashed. There is
 * no file, or it is none that can be read, otherwise. */
static inline bool symbolizer_may_pass(int r)
{
    return r == -ETIMEDOUT || r == -EIO || r == -EAGAIN || r == -ENOMEM || r == -EMFILE || r == -ENFILE;
}

static inline void symbolizer_free(struct symbolizer *s)
{
    if (s)
        s->free(s);
}
DEFINE_CLEANUP(struct symbolizer *, symbolizer_free)

void symbol_answer_free(struct symbol_answer *a);
DEFINE_CLEANUP(struct symbol_answer *, symbol_answer_free)

#endif
