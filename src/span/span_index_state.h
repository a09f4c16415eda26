/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a span index, shared by the files that implement span_index.h: span_index.c (tenants, queue, writer
 * thread, retention), span_scan.c (questions) and span_delete.c (deleting, checking, copying).
 *
 * Only the writer thread changes the lists of files, with the lock held; it may therefore read them without the lock.
 * Every other thread reads them with the lock held. The list of tenants grows in any thread, with the lock held, and
 * tenants are never removed.
 */
#ifndef SPAN_SPAN_INDEX_STATE_H
#define SPAN_SPAN_INDEX_STATE_H

#include <pthread.h>

#include "span/span_files.h"
#include "span/span_index.h"

enum { SPAN_TENANT_NAME_MAX = 200 };

struct span_tenant {
    char *name;
    struct span_files files;
    size_t queued; /* bytes */
    struct span_tenant *next;
};

struct span_index {
    char dir[SPAN_DIR_SIZE - 420]; /* "": in memory; a tenant's directory is below it */
    int64_t (*now)(void);
    int64_t (*ahead)(void *ctx);
    void *ahead_ctx;
    bool async, read_only;
    double min_free;
    size_t queue_max;
    int lock_fd;
    pthread_t thread;
    bool started;
    pthread_mutex_t lock; /* everything below that is not atomic */
    pthread_cond_t wake, deleted;
    bool stop _guarded_by_(lock);
    _Atomic uint64_t size;
    _Atomic int64_t keep, ahead_ns;
    struct quota share _guarded_by_(lock);
    struct span_tenant *tenants _guarded_by_(lock);
    uint32_t n_tenants _guarded_by_(lock);
    struct span_job *first _guarded_by_(lock), **last _guarded_by_(lock);
    size_t queued _guarded_by_(lock); /* bytes of jobs that are not finished */
    struct span_deletion *deletions _guarded_by_(lock);
    struct span_index_stats stats _guarded_by_(lock);
    _Atomic uint64_t duplicates, refused, damaged, blocks_read;
    _Atomic uint64_t failures; /* how often spans were forgotten by span_index_forget_recent() */
    _Atomic uint64_t *recent;  /* hashes of spans, by a part of themselves */
};

/* The tenant of this name, or NULL. */
struct span_tenant *span_index_tenant(struct span_index *x, const char *name) _locked_(x->lock);

/* The time that retention uses: the wall clock, less what it is known to be ahead by. */
int64_t span_index_now(struct span_index *x);

/* Makes no span count as repeated any more. */
void span_index_forget_recent(struct span_index *x);

/* A deletion that waits for the writer thread. */
struct span_deletion {
    const char *tenant;
    const struct span_delete *what;
    uint64_t deleted;
    int r;
    bool done;
    struct span_deletion *next;
};
/* Runs a deletion. On the writer thread. */
void span_deletion_run(struct span_index *x, struct span_deletion *d);

#endif
