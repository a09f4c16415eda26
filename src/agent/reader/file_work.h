/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the agent wants to know of a binary: the requests, their answers, and the work itself. ELF, call frame
 * information, pclntab, xz and mangled names of other users' files are hostile input, so the agent does not do this
 * work itself: it passes the open file to a confined process (file_reader.h), which returns these structs and, for what
 * has no fixed size, a sealed memory file.
 *
 * The structs go over a socket between two processes of one build, in native byte order. Flags are bytes, not bool: a
 * bool from an untrusted process may have an invalid value.
 */
#ifndef AGENT_READER_FILE_WORK_H
#define AGENT_READER_FILE_WORK_H

#include "agent/lang/lang_question.h"
#include "elf/elf.h"
#include "elf/elf_id.h"
#include "elf/tls_symbol.h"

enum file_op {
    FILE_FACTS, /* struct file_facts */
    FILE_MATCH, /* whether a debug file is of the build with this id, or has this checksum; struct file_facts */
    FILE_TABLE, /* struct file_range, and the unwind table as a memory file (unwind/table_share.h) */
    FILE_NAMES, /* the frames of addresses as a memory file (model/symbol_wire.h) */
    FILE_LANG,  /* a question of a language: the answer is the language's own */
};

enum { FILE_ADDRESSES_MAX = 8192, FILE_SEGMENTS_MAX = 64, FILE_NAMES_MAX = 64 << 20 };

struct file_request {
    uint32_t op;
    uint32_t n_addresses; /* FILE_NAMES */
    uint32_t crc;         /* FILE_MATCH, when id is empty */
    uint8_t is_vdso;      /* the file is the vDSO of the reader itself; no descriptor is passed */
    uint8_t want_hash;    /* FILE_FACTS: the hash of the content, even if the file has a build id */
    uint8_t expects_id;   /* the file must have this GNU build id: else -ESTALE */
    uint32_t lang;        /* FILE_LANG: its number (lang_abi.h) */
    struct lang_question lang_question;
    char id[ELF_ID_MAX];       /* GNU build id */
    char path[1024];           /* the end of its path, for versions in names of files */
    const uint64_t *addresses; /* FILE_NAMES: follow the struct on the socket */
};

struct file_facts {
    char gnu_id[ELF_ID_MAX], go_id[ELF_ID_MAX], hash[40];
    uint8_t is_go, has_lines; /* debug information with lines is in the file itself */
    uint8_t has_names;        /* it has more than dynamic symbols */
    uint8_t go_modified, has_go_build;
    uint8_t has_span;
    struct tls_symbol span; /* otel_thread_ctx_v1 */
    uint32_t n_segments;
    struct elf_segment segments[FILE_SEGMENTS_MAX]; /* PT_LOAD */
    uint64_t entry;
    char debug_link[256]; /* the name in .gnu_debuglink, without '/'; "": none */
    uint32_t debug_crc;
    char go_version[64], go_revision[104];
};

struct file_range {
    uint64_t lo, hi; /* ELF addresses of code with frame pointers and without tables (v8_builtins.h) */
};

struct file_answer {
    int32_t code; /* 0; 1: found; negative errno */
    union {
        struct file_facts facts;
        struct file_range range;
        uint64_t lang[LANG_ANSWER_BYTES / 8];
    };
};

/* Sets the path of a request: its last bytes when it is longer than the room. */
void file_request_path(struct file_request *q, const char *path);
/* Does the work in this process. fds: the file, and for FILE_TABLE its debug file; -1 where there is none. *ret_fd is a
 * memory file, the caller's, or -1. */
void file_work(const struct file_request *q, const int fds[2], struct file_answer *ret, int *ret_fd);
/* Whether an answer from an untrusted process is one that file_work() can give. */
bool file_answer_is_valid(const struct file_request *q, const struct file_answer *a);

#endif
