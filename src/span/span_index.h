/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The span index: the spans of traces that `wick serve` receives over OTLP, by tenant: IDs, parent, name, service,
 * version and instance of the sender, start, duration, kind and status. Profiles are linked to spans by their IDs; the
 * index lists the spans that exist.
 *
 * On disk it is a directory per tenant ("t-" and the tenant's name in hex) with files of blocks (span_block.h), the
 * newest of which is appended to. An acknowledged span is on disk and in every answer that begins afterwards. What a
 * crash has left unfinished at the end of a file is cut off when the index is opened; a damaged block in the middle is
 * passed over, and what follows it is read. One process at a time may write (a lock on DIR/LOCK). The size of all files is limited:
 * over the limit the oldest file of the tenant with the most bytes is deleted, so that one tenant cannot displace the
 * spans of another. Without a directory the files are in memory.
 *
 * A span that is sent again soon (a sender's retry) is stored once.
 *
 * span_index_append() may be called from any thread and never blocks. Questions run on the caller's thread, any number
 * at once, and never wait for the disk while a lock is held.
 */
#ifndef SPAN_SPAN_INDEX_H
#define SPAN_SPAN_INDEX_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/quota.h"
#include "model/sink.h"
#include "span/span_block.h"

struct span_index;

struct span_index_config {
    const char *dir;      /* NULL: in memory */
    uint64_t size;        /* bytes of all files, 0 = 512 MiB, or 64 MiB in memory */
    struct quota share;   /* of a tenant, besides size: over it, it loses its oldest. Called with a lock held */
    int64_t keep;         /* retention by age, ns; <= 0: for ever */
    bool async;           /* acknowledge once written, before the sync */
    bool read_only;       /* no writer; nothing is changed */
    double min_free;      /* share of the disk below which spans are refused, 0 = 0.05; negative: off */
    size_t queue;         /* bytes that may wait to be written, 0 = 64 MiB; a tenant may use half of it */
    int64_t (*now)(void); /* NULL = clock_wall; tests replace it */
    /* How far the wall clock is ahead of the time that retention trusts, in ns; NULL: it is right. Called by the writer
     * thread. */
    int64_t (*ahead)(void *ctx);
    void *ahead_ctx;
};

int span_index_open(const struct span_index_config *c, struct span_index **ret, struct err *e);
void span_index_close(struct span_index *x); /* completes every ack, then frees; NULL is allowed */
DEFINE_CLEANUP(struct span_index *, span_index_close)
/* Applies size and keep of c from now on. */
void span_index_set_retention(struct span_index *x, const struct span_index_config *c);

/* Decodes a request of OTLP traces and stores its spans. A malformed request is refused as a whole; spans without IDs
 * or times are refused through a partial success. */
void span_index_append(struct span_index *x, const char *tenant, struct str message, bool json, struct ack *ack);

/* Which spans to delete. */
struct span_delete {
    int64_t from, to;                                     /* of the start: [from, to) */
    bool (*matches)(void *ctx, const struct span_row *s); /* NULL: all. Called by the writer thread */
    void *ctx;
};
/* Deletes spans, from answers and from the disk, and waits until that is done. Returns 0, or a negative errno; spans of
 * files that were finished before a failure are gone. x may be NULL. */
int span_index_delete(struct span_index *x, const char *tenant, const struct span_delete *what, uint64_t *ret_deleted,
                      struct err *e);
/* Reads every block and verifies its checksum; calls line for each problem and for a summary. x must be read-only. */
int span_index_check(struct span_index *x, void (*line)(void *ctx, bool problem, const char *text), void *ctx,
                     struct err *e);
/* Copies the files of all tenants into a directory, which must not exist, synced: every span that was acknowledged before the
 * call. Any thread; the writer goes on meanwhile. */
int span_index_copy(struct span_index *x, const char *dir, struct err *e);

struct span_index_stats {
    uint64_t spans, duplicates, refused; /* since start */
    uint64_t bytes, files, tenants;      /* at present */
    uint64_t queued;                     /* bytes that wait to be written */
    uint64_t dropped;                    /* bytes deleted over the limits, since start */
    uint64_t torn, damaged;              /* ends of files that were cut off; blocks that could not be read */
    uint64_t blocks_read;                /* by questions, since start */
};
void span_index_stats(struct span_index *x, struct span_index_stats *ret);

/* Bytes of a tenant's files. */
uint64_t span_index_tenant_bytes(struct span_index *x, const char *tenant);

/* --- questions --- */

struct span_filter {
    const char *tenant;                /* never NULL */
    int64_t from, to;                  /* of the start: [from, to) */
    struct str service, version, name; /* exact; empty: any */
    bool of_trace;                     /* only of this trace */
    uint8_t trace_id[16];
    int64_t min_duration, max_duration; /* [min, max); max 0: no limit */
    bool errors;                        /* only those with status error */
    bool requests;                      /* only those of span_is_request() */
    const atomic_bool *cancel;          /* may be NULL; -ECANCELED */
};

/* Strings are valid during the call. A value other than 0 ends the scan and is returned. */
typedef int (*span_fn)(void *ctx, const struct span_row *s);
/* Calls fn for each span that the filter selects, roughly in the order of arrival. x may be NULL: there are none. */
int span_index_each(struct span_index *x, const struct span_filter *f, span_fn fn, void *ctx, struct err *e);

/* Requests of a service: server and consumer spans, and spans without a parent, by their start in [from, to). */
struct span_requests_query {
    const char *tenant;
    struct str service;
    int64_t from, to, step; /* step 0: one window */
    const atomic_bool *cancel;
};

struct span_requests_row {
    struct str version, instance; /* "" when not sent */
    uint64_t *count, *errors;     /* per window */
    int64_t *duration;            /* sum per window, ns */
};

struct span_requests {
    struct span_requests_row *v;
    uint32_t n, n_windows;
    struct arena arena;
    /* private */
    size_t cap;
};

/* A row per version and instance of the service. x may be NULL: there are none. -E2BIG for more than a million numbers. */
int span_index_requests(struct span_index *x, const struct span_requests_query *q, struct span_requests *ret,
                        struct err *e);
void span_requests_done(struct span_requests *r);

#endif
