/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store: batches go in, trees, series and batches come out. One table of functions per engine; a conformance suite
 * (tests/unit/store_conformance.c) runs on every one of them. No SQL, node ids or file names cross this line.
 *
 * Going in
 *   store_append() never blocks and may be called from any thread; the ack is completed exactly once. An acknowledged
 *   profile is on disk (engine `segment` with sync = true) and is seen by every query that begins afterwards.
 *   A profile that was stored before (dedup.h) is acknowledged and not stored again. A profile that starts outside
 *   -max_late ... +max_early of now is refused by name through partial success; start 0 becomes the time of receipt.
 *   No room on the disk, a full queue: retryable. A sync that failed is final: nothing is acknowledged any more.
 *
 * Coming out
 *   A profile belongs to the instant it starts: it is in [from, to) or it is not, whatever its duration. Where detail
 *   has been dropped (retention), what is left has five-minute edges; store_notes.coarse says that this happened.
 *   Series of one canonical type are added by the type's rule (types.h): deltas add up; gauges are averaged per stack
 *   over the snapshots of an instance (one resource) and added over instances. Asked for one trace, a gauge is averaged
 *   over the snapshots that know the trace.
 *   Queries run on the caller's thread (an engine may take a second one for a while), any number at once; writers never
 *   block them. They stop with -ECANCELED when *cancel becomes true and with -E2BIG over memory_limit.
 *
 * Selectors
 *   Matchers on labels of the series (the allow-list) are cheap. Any other name is looked up in the sample's, the
 *   profile's, then the resource's attributes, which costs reading detail; where detail is gone such a matcher finds
 *   no attribute.
 */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/hash.h"
#include "model/convert.h"
#include "model/labels.h"
#include "model/sink.h"
#include "model/types.h"

struct batch;
struct store;
struct store_table;
struct symbol_answer;

enum store_timestamps { TIMESTAMPS_NS, TIMESTAMPS_US, TIMESTAMPS_MS, TIMESTAMPS_OFF };
enum { STORE_SERVICE_RULES_MAX = 64 };

struct store_config {
    const char *dir;             /* where it lives; engine `memory` takes NULL */
    const char *const *allow;    /* labels of a series, NULL-terminated; NULL = labels_default_allow */
    int64_t max_late, max_early; /* ns; 0 = 7 d, 10 min; negative = no limit */
    int64_t dedup_window;        /* ns, 0 = 24 h */
    uint32_t dedup_max;          /* profiles, 0 = 1 M */
    int64_t keep;                /* retention by age, 0 = 30 d; negative = for ever */
    int64_t keep_detail;         /* detail and links, 0 = 7 d; negative = as long as the rest */
    uint64_t keep_bytes;         /* retention by size, 0 = 10 GiB */
    struct {
        const char *service;
        int64_t keep;
    } services[STORE_SERVICE_RULES_MAX]; /* shorter retention for these */
    uint32_t n_services;
    bool async;     /* acknowledge when written, before it is synced */
    bool read_only; /* no writer, no threads; a store that another process has open is refused all the same */
    bool manual;    /* nothing in the background: flush and compact only when asked (tests, tools) */
    size_t memory;  /* of rows not yet in a segment, 0 = 64 MiB */
    size_t cache;   /* of what is kept between questions and can be read again, 0 = 256 MiB */
    size_t
        dictionary; /* of stacks and names of all epochs, 0 = no limit; over it, requests with new stacks are refused */
    size_t answers; /* of what questions need while they run, 0 = no limit; over it they are refused */
    double min_free;  /* share of the disk below which writes are refused, 0 = 0.05; negative = off */
    uint64_t reserve; /* bytes kept for retention to work on a full disk, 0 = 64 MiB */
    enum store_timestamps timestamps;
    void (*tell)(void *ctx, const char *line); /* of damage and repair, from any thread, for a log; NULL = nobody */
    void *tell_ctx;
    int64_t (*now)(void);     /* NULL = clock_wall; tests move time */
    int64_t (*elapsed)(void); /* time that passed for this machine; NULL = now where that is set, else clock_boot */
};

/* --- questions --- */

struct store_column {
    const struct selector *selector; /* its type must be set */
    int64_t from, to;                /* [from, to) */
};

struct store_query {
    const char *tenant; /* never NULL; "" is the default tenant */
    struct store_column columns[2];
    uint32_t n_columns; /* 1, or 2 for a diff: base and new */
    /* only samples of this trace, of this span of it, or (span alone) of this span in whatever trace */
    bool has_trace, has_span;
    uint8_t trace_id[16], span_id[8];
    bool has_profile; /* only this profile: store_profile.handle */
    struct id128 profile;
    /* shape of the tree */
    enum granularity by;
    bool no_inlines;
    struct str focus, ignore, hide; /* regular expressions (RE2) on function names, files and mappings; empty = none */
    uint32_t max_nodes;             /* 0 = all */
    double min_share;
    const struct str *zoom; /* names from the root down; the view is the subtree below them */
    uint32_t n_zoom;
    size_t memory_limit; /* bytes of the answer, 0 = none */
    bool no_names;       /* export: names that are missing need not be looked for */
    const atomic_bool *cancel;
    struct store_notes *notes; /* of profiles and export, added to what is there; NULL: nobody reads them */
};

/* What a reader of the answer should know. */
struct store_notes {
    uint64_t profiles, samples; /* looked at */
    bool coarse;                /* some edges are five-minute ones: detail is gone there */
    uint32_t damaged;           /* pieces that could not be read and are missing from the answer */
    char damage[200];           /* the first of them, in words */
};

struct store_series_query {
    int64_t step;         /* ns; points are [from + i * step, ...) */
    const struct str *by; /* label names to keep apart; none: one series */
    uint32_t n_by;
    struct str function; /* only stacks that hold it, when not empty */
};

struct store_points {
    struct arena arena;
    int64_t from, step;
    uint32_t n_series, n_points;
    struct labels *labels; /* per series: the `by` labels */
    double *values;        /* n_series rows of n_points */
    struct type type;
};

/* One series that is live in a range of time, about: engines may know its first and last profile of an hour or a day
 * and not each between. Strings are valid during the call. */
typedef int (*store_series_fn)(void *ctx, const struct type *t, const struct labels *l);

struct store_profile {
    struct id128 handle; /* names this profile in later questions */
    int64_t time_ns, duration_ns;
    int64_t value;      /* sum over its samples */
    uint32_t n_samples; /* about: equal stacks may have been joined, timestamps taken apart */
    const struct type *type;
    const struct labels *labels;
    uint8_t id[16]; /* as sent; zero = none */
};
typedef int (*store_profile_fn)(void *ctx, const struct store_profile *p);
/* A batch of whole profiles as they were sent (stacks, attributes, links, timestamps). */
typedef int (*store_batch_fn)(void *ctx, struct batch *b);

struct store_stats {
    uint64_t profiles, samples; /* accepted since start */
    uint64_t duplicates, rejected;
    uint64_t series, services, stacks, locations; /* known now */
    uint64_t segments, segment_bytes, symbol_bytes, log_bytes, catalog_bytes, disk_bytes;
    struct {
        const char *name;
        uint64_t bytes;
    } parts[8]; /* of segment_bytes, where the store was opened to read only; ends with name NULL */
    uint64_t stored_samples, stored_profiles; /* in segments */
    uint64_t deletions;                       /* what they mean is hidden, and not yet gone from the disk */
    uint64_t memory_bytes;
    uint64_t cache_bytes; /* of these: what is kept between questions */
    int64_t oldest_ns, newest_ns;
    uint64_t flushes, compactions, syncs;
    uint64_t torn;     /* ends of logs that were cut off at opening: a write that a crash broke off, or damage there */
    uint64_t newer;    /* segments that a later version wrote, and that are not read */
    uint64_t damaged;  /* pieces found damaged, until a person has confirmed to have seen them */
    char damage[200];  /* the first of them */
    bool stopped;      /* a sync failed: nothing is acknowledged any more */
    char problem[240]; /* why nothing is accepted now; "" = everything is */
    int64_t clock_ahead_ns; /* the wall clock is this far ahead of the time that retention believes; 0 = it is not */
};

/* What a person has to confirm: that the wall clock is right, although it jumped; that damage was seen. */
enum store_confirm { STORE_CONFIRM_CLOCK, STORE_CONFIRM_DAMAGE };

typedef void (*store_report_fn)(void *ctx, bool problem, const char *line);

struct store_ops {
    const char *name, *help;
    int (*open)(const struct store_config *c, struct store **ret, struct err *e);
    void (*close)(struct store *s);
    void (*append)(struct store *s, struct batch *b, const struct sink_context *ctx, struct ack *ack);
    int (*select)(struct store *s, const struct store_query *q, struct tree **ret, struct store_notes *notes,
                  struct err *e);
    /* The same selection as sums by row (store_table.h), without the cost of a tree. max_nodes and min_share must be 0. */
    int (*table)(struct store *s, const struct store_query *q, struct store_table *t, struct store_notes *notes,
                 struct err *e);
    /* Who calls a function (exact name) and whom it calls: two trees with the function at their top, each with at most
     * max_nodes. Recursion counts once: only the outermost call on a path opens it. */
    int (*callers)(struct store *s, const struct store_query *q, struct str function, struct tree **ret_callers,
                   struct tree **ret_callees, struct store_notes *notes, struct err *e);
    int (*series)(struct store *s, const struct store_query *q, const struct store_series_query *sq,
                  struct store_points *ret, struct store_notes *notes, struct err *e);
    int (*each_series)(struct store *s, const char *tenant, int64_t from, int64_t to, store_series_fn fn, void *ctx);
    int (*profiles)(struct store *s, const struct store_query *q, store_profile_fn fn, void *ctx, struct err *e);
    int (*export)(struct store *s, const struct store_query *q, store_batch_fn fn, void *ctx, struct err *e);
    /* Names for locations that came without: addresses of q's binary, in the answer's order. */
    int (*name_later)(struct store *s, const char *tenant, struct str build_id, const uint64_t *addresses,
                      const struct symbol_answer *names, struct err *e);
    /* Everything of these series that starts in the range and was acknowledged before: in no answer that begins after
     * the call, whatever happens to the machine, and off the disk by the next compaction. What comes later is not
     * meant; what was deleted and is sent again is a duplicate still (as long as deduplication remembers it). Matchers:
     * labels of the series only. */
    int (*delete)(struct store *s, const char *tenant, const struct store_column *what, struct err *e);
    /* Drops what is too old, too much; compacts what is due. compact_all: everything that can be, now. */
    int (*retain)(struct store *s, bool compact_all, struct err *e);
    /* keep, keep_detail, keep_bytes and services of c, from now on; its strings must live as long as they are used. NULL
     * where nothing is retained. */
    void (*set_retention)(struct store *s, const struct store_config *c);
    /* Maintenance; each NULL where the engine has nothing of the kind: call store_flush() and the others below. */
    int (*flush)(struct store *s, struct err *e); /* memory to where it rests */
    int (*snapshot)(struct store *s, const char *dir, struct err *e);
    int (*stats)(struct store *s, struct store_stats *ret);
    /* Reads everything there is; fn is told of each part, and of each damage. */
    int (*check)(struct store *s, store_report_fn fn, void *ctx, struct err *e);
    int (*confirm)(struct store *s, enum store_confirm what, struct err *e); /* NULL: there is nothing to confirm */
};

struct store {
    const struct store_ops *ops;
    struct sink sink; /* store_append() as a sink, for pipelines */
};

/* "clock" or "damage". */
int store_confirm_parse(struct str name, enum store_confirm *ret, struct err *e);

/* One line per engine in store.c. */
extern const struct store_ops store_memory, store_segment;
/* "memory" or "segment"; NULL when there is none of that name. */
const struct store_ops *store_engine(struct str name);
/* The engine of a place: NAME://..., or the default one for a directory. NULL when there is none of that name. */
const struct store_ops *store_engine_of(struct str place);

int store_open(const struct store_ops *ops, const struct store_config *c, struct store **ret, struct err *e);
void store_close(struct store *s); /* completes every ack, then frees; takes NULL */
DEFINE_CLEANUP(struct store *, store_close)

static inline void store_append(struct store *s, struct batch *b, const struct sink_context *ctx, struct ack *ack)
{
    s->ops->append(s, b, ctx, ack);
}
/* Appends and waits: for tools and tests. */
int store_append_wait(struct store *s, struct batch *b, const struct sink_context *ctx, struct ack_result *ret);

/* Maintenance that not every engine has: flush is done where there is nothing to do; the others say so (-ENOTSUP). */
int store_flush(struct store *s, struct err *e);
int store_snapshot(struct store *s, const char *dir, struct err *e);
int store_check(struct store *s, store_report_fn fn, void *ctx, struct err *e);

void store_points_done(struct store_points *p);

#endif
