/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of one tenant in the span index: finding them at the start, appending to the newest, deleting the oldest, and
 * reading one block after the other. Nothing here locks: span_index.c does.
 */
#ifndef SPAN_SPAN_FILES_H
#define SPAN_SPAN_FILES_H

#include <stdbool.h>

#include "base/err.h"
#include "span/span_block.h"
#include "span/span_traces.h"

enum { SPAN_DIR_SIZE = 4400 };

struct span_file {
    uint64_t number;     /* files of a tenant are numbered in the order of time */
    uint64_t size;       /* of whole blocks */
    int fd;              /* in memory: the file itself; on disk -1 */
    int64_t first, last; /* start of its spans */
    int64_t received_first, received_last;
    struct span_traces traces; /* of the entry in the list; copies of it do not own them */
};

struct span_files {
    char dir[SPAN_DIR_SIZE]; /* "": in memory */
    struct span_file *v;     /* oldest first; only the last one is appended to */
    uint32_t n;
    size_t cap;
    uint64_t bytes, newest; /* newest: the number of the newest file there ever was */
};

struct span_found {
    uint64_t torn, damaged;
};

/* Lists the files of a directory, which may not exist yet. Cuts off an unfinished block at the end of the newest
 * (unless read_only). */
int span_files_open(struct span_files *f, const char *dir, bool read_only, struct span_found *found, struct err *e);
void span_files_done(struct span_files *f);

/* How a file is ended and another begun. */
struct span_limits {
    uint64_t size; /* bytes of a file */
    int64_t age;   /* ns between its first and its last block */
    bool sync;
};
/* Appends blocks (as span_writer made them, received at that time) to the newest file, or to a new one. On failure
 * nothing is appended. The caller publishes *ret with span_files_publish(). */
int span_files_append(struct span_files *f, struct str blocks, const struct span_limits *l, struct span_file *ret,
                      struct err *e);
/* Makes an appended file visible: adds it, or replaces the newest; `traces` of the blocks that were appended become part of it. */
int span_files_publish(struct span_files *f, const struct span_file *x, struct span_traces *traces);
/* Takes file i < n out of the list; the caller deletes it with span_files_delete(), which frees its traces, too. */
struct span_file span_files_drop(struct span_files *f, uint32_t i);
void span_files_delete(const struct span_files *f, struct span_file *x);

/* Adds blocks to the sizes and times of a file. -EBADMSG if they are none. */
int span_file_note(struct span_file *x, struct str blocks);
/* Creates a directory, with its parents, if it does not exist; its name survives a crash. */
int span_make_dir(const char *dir);
int span_sync_dir(const char *dir); /* makes the names in it survive a crash */

/* Replacing a file: creates the new one beside it; syncs it and puts it into the place of the old one (the caller syncs
 * the directory), or with keep false removes it. A file in memory is replaced by the caller. */
int span_files_create(const struct span_files *f, const struct span_file *x, int *ret_fd);
int span_files_replace(const struct span_files *f, const struct span_file *x, int fd, bool keep);

/* --- reading --- */

struct span_reader {
    int fd;
    uint64_t at, size; /* next block; end of the file */
    bool shorter;      /* than it was when it was copied: a deletion has replaced it */
    struct buf window; /* bytes of the file from window_at on */
    uint64_t window_at;
    struct span_block block;
};

/* Opens a file of f as it was when it was copied. 0, or -ENOENT when it has been deleted since. */
int span_reader_open(struct span_reader *r, const char *dir, const struct span_file *x);
void span_reader_done(struct span_reader *r);
/* Reads the head of the next block without its payload: 1, 0 at the end, or an error. */
int span_reader_head(struct span_reader *r, struct span_head *ret);
/* Reads the block whose head was read last into r->block, and advances: 0, or -EBADMSG for a damaged one, without
 * advancing. */
int span_reader_block(struct span_reader *r);
/* After -EBADMSG: advances to the next whole block. 1, 0 if there is none, or an error. */
int span_reader_resync(struct span_reader *r);
/* Advances without reading. */
void span_reader_skip(struct span_reader *r, const struct span_head *h);

#endif
