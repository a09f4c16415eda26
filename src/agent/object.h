/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An object: the content of one executable file that some process has mapped, identified by its build id. Files of one
 * owner with equal ids are one object. A build id is only a claim: a file of an ordinary user that has the same id as a
 * file of root is another object, identified by a hash of its content, so that users cannot change the function names
 * of other users' programs. An object owns its unwind table, which is compiled when first needed and dropped when the
 * budget is exceeded; it can be compiled again as long as the file can be opened.
 *
 * Objects are shared by processes and reference-counted; an object that no process maps is kept for a while
 * (short-lived processes come back). The agent's thread only.
 */
#ifndef AGENT_OBJECT_H
#define AGENT_OBJECT_H

#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

#include "base/err.h"
#include "base/map.h"
#include "elf/elf.h"
#include "elf/elf_id.h"

struct file_answer;
struct file_reader;
struct file_request;
struct objects;
struct tls_symbol;
struct unwind_table;

/* The file as identified by the kernel in /proc/PID/maps or a perf mmap record. An inode number may be reused for
 * another file; only records contain its generation, and file systems that were not made by mounting them, overlayfs and
 * others have none. A key with a generation identifies an object. One without does so while the object's descriptor is
 * open, which keeps the inode, and the file was not changed. */
struct object_key {
    uint64_t inode, generation;
    uint32_t major, minor;
};

/* What stat() says of a file. The change time cannot be set back: a file that was written since has another one. */
struct object_file {
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec changed;
};

enum object_kind { OBJECT_FILE, OBJECT_VDSO };

struct object_go {
    char version[64], revision[104]; /* "go1.26.1"; of the version control system, or "" */
    bool modified;
};

struct object {
    uint32_t number; /* >= AGENT_FILES_FIRST: its `file` in BPF maps; never reused while the agent runs */
    uint32_t refs;   /* mappings of processes */
    enum object_kind kind;
    char *path; /* as seen by its first process */
    char gnu_id[ELF_ID_MAX], go_id[ELF_ID_MAX];
    char htlhash[40]; /* when it has neither of the others */
    bool is_go;
    struct object_go *go; /* what its linker wrote about the build; NULL: nothing */
    char *debug_link;     /* the name of its debug file, without a folder; NULL: it has none */
    uint32_t debug_crc;
    bool has_own_lines, has_own_names; /* in the file itself: lines; more than dynamic symbols */
    struct file_reader *reader;        /* reads the file */
    uint64_t plain_until_ns;           /* process_load.c: programs of this file have no language and no spans */
    bool failed;                       /* it has no tables: walked by frame pointers */
    uid_t owner;                       /* of the file; the vDSO is root's */
    struct object_file file;           /* inode 0: not known */
    int fd; /* kept open, so that deleted and replaced files can still be read; -1: only the path is known */
    uint64_t fp_lo,
        fp_hi;      /* ELF addresses [lo, hi) of code that a JIT's compiler made at build time (V8's builtins): it has
                              frame pointers and no tables; known once the table is there */
    uint64_t entry; /* ELF address where a program, or the loader, starts */
    struct elf_segment *segments; /* PT_LOAD that are executable */
    uint32_t n_segments;
    struct unwind_table *table; /* NULL while not compiled, or dropped */
    uint16_t *rule_numbers;     /* table's rule -> number in the BPF map; 0 = not yet there */
    uint8_t *loaded;            /* by page of the table: the BPF map has it */
    bool whole;                 /* all of its pages were loaded at once */
    uint64_t last_used_ns;
    struct object_names *names; /* names.h; NULL until asked for */
    uint64_t names_used_ns;     /* of the last batch that needed them */
    bool sampled;               /* a stack came through */
    uint64_t cut;               /* stacks that end in its code for lack of call frame information */
    bool offered;               /* agent_next_file() has returned it */
    bool has_lines;          /* debug information is there, in the file or beside it; known once names were looked up */
    uint64_t lines_bytes;    /* size of the file with the debug information */
    uint64_t lines_next_ns;  /* object_lines.h: no request before this time */
    struct tls_symbol *span; /* its otel_thread_ctx_v1; NULL when it has none */
};

/* The id that identifies the file: GNU's build id, else Go's, else a hash. */
const char *object_id(const struct object *o);
/* A path by which another process of ours can open the file: its own path while that is still the same file, so that
 * files next to it can be found as well; else the path of our descriptor. */
void object_reach(const struct object *o, char *ret, size_t size);
/* Asks the process that reads binaries about the object's file (reader/file_reader.h); debug_fd: its debug file, or -1.
 * The file is opened again if its descriptor was closed; -ESTALE when it was replaced. */
int object_ask(const struct object *o, struct file_request *q, int debug_fd, struct file_answer *ret, int *ret_fd);
/* Address minus ELF address for a mapping of the file with this start and file offset. False when no segment fits. */
bool object_bias(const struct object *o, uint64_t start, uint64_t end, uint64_t offset, uint64_t *ret);

/* Whether the address is in the start code of a process, which has no caller: it is hand-written, often without call
 * frame information (the loader's, a static program's). */
bool object_is_start(const struct object *o, uint64_t address);

/* reader: reads the files; owned by the caller; NULL: they are read in this process. */
int objects_new(size_t table_budget, struct file_reader *reader, struct objects **ret);
struct file_reader *objects_reader(const struct objects *s);
void objects_free(struct objects *s);
/* An object that is known by this key, with a reference for the caller; NULL when it is not known. path: as the process
 * has mapped it. */
struct object *objects_find(struct objects *s, const struct object_key *key, const char *path);
/* The object of an open file (fd is taken over, also on failure), or of the vDSO with fd -1. *ret with a reference. */
int objects_add(struct objects *s, int fd, const char *path, const struct object_key *key, struct object **ret,
                struct err *e);
struct object *object_ref(struct object *o);
void object_unref(struct object *o);
struct object *objects_by_number(struct objects *s, uint32_t number);
/* Its table, compiled now if necessary; NULL when the object has none. */
struct unwind_table *objects_table(struct objects *s, struct object *o, uint64_t now_ns);
void objects_set_budget(struct objects *s, size_t table_bytes);
/* Drops names that no batch has needed since since_ns, least recently used first, until the rest fits into the
 * limit. */
void objects_limit_names(struct objects *s, uint64_t since_ns, size_t bytes);
/* Drops tables over the budget, and objects that no process has mapped for a while. */
void objects_sweep(struct objects *s, uint64_t now_ns);
size_t objects_count(const struct objects *s);
struct object *objects_at(struct objects *s, size_t i); /* i < objects_count() */
size_t objects_memory(const struct objects *s);         /* bytes of tables */

#endif
