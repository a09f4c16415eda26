/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store: batches are appended; trees, series and batches are queried. Each engine is one table of functions, and a
 * conformance suite (tests/unit/store_conformance.c) runs on each of them. No SQL, node IDs or file names cross this
 * interface.
 *
 * Appending
 *   store_append() never blocks and may be called from any thread; the ack is completed exactly once. An acknowledged
 *   profile is on disk (engine `segment`, unless `async`) and is visible to every query that begins afterwards. A
 *   profile that was stored before (dedup.h) is acknowledged and not stored again. A profile that starts outside
 *   -max_late ... +max_early of now is refused through a partial success whose message names it; start 0 becomes the
 *   time of receipt. A full disk or a full queue is a retryable error. A failed sync is final: nothing is acknowledged
 *   from then on.
 *
 * Querying
 *   A profile belongs to the instant it starts: it is in [from, to) or it is not, whatever its duration. Where
 *   retention has dropped detail, the remaining data has a resolution of five minutes; store_notes.coarse reports it.
 *   Series of one canonical type are added by the type's rule (types.h): deltas add up; gauges are averaged per stack
 *   over the snapshots of an instance (process_sources.h) and added over instances. In a query for one trace, a gauge is
 *   averaged over the snapshots that contain the trace. Queries run on the caller's thread (an engine may use a second
 *   one temporarily), and any number may run at once; writers never block them. They stop with -ECANCELED when *cancel
 *   becomes true and with -E2BIG over memory_limit.
 *
 * Names of labels
 *   Matching and grouping by labels of the series is cheap: those of the allow-list, and those that the engine chose
 *   (label_choice.h). In a series that has no label of another name, that name is looked up in the sample's, the profile's,
 *   then the resource's attributes, which requires reading detail; where detail has been dropped, no attribute is found.
 *   Names are equal in every spelling (label_name_eq()).
 */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/hash.h"
#include "model/labels.h"
#include "model/sink.h"
#include "model/tree.h"
#include "model/types.h"

struct batch;
struct store;
struct store_cube;
struct store_cube_query;
struct store_span_set;
struct store_spans;
struct store_table;
struct store_table_query;
struct store_windows;
struct symbol_answer;

enum store_timestamps { TIMESTAMPS_NS, TIMESTAMPS_US, TIMESTAMPS_MS, TIMESTAMPS_OFF };
enum { STORE_SERVICE_RULES_MAX = 64 };

struct store_config {
    const char *dir;          /* directory of the store; engine `memory` takes NULL */
    const char *const *allow; /* labels of a series, NULL-terminated; NULL = labels_default_allow */
    uint32_t
        label_values; /* other resource attributes are labels while they have so few values (label_choice.h); 0 = none */
    int64_t max_late, max_early; /* ns; 0 = 7 d, 10 min; negative = no limit */
    int64_t dedup_window;        /* ns, 0 = 24 h */
    uint32_t dedup_max;          /* profiles, 0 = 1 M */
    int64_t keep;                /* retention by age, 0 = 30 d; negative = for ever */
    int64_t keep_detail;         /* detail and links, 0 = 7 d; negative = as long as the rest */
    uint64_t keep_bytes;         /* retention by size of everything in the directory, 0 = 10 GiB */
    /* Of one tenant: its limit of size, 0 = only that of all; and what is kept for it beside its profiles, which counts. From
     * any thread; may be NULL. */
    uint64_t (*tenant_limit)(void *ctx, const char *tenant);
    uint64_t (*tenant_beside)(void *ctx, const char *tenant);
    void *tenant_ctx;
    struct {
        const char *service;
        int64_t keep;
    } services[STORE_SERVICE_RULES_MAX]; /* shorter retention for these */
    uint32_t n_services;
    bool async;        /* acknowledge once written, before the sync */
    bool read_only;    /* no writer, no threads; a store that another process has open is still refused */
    bool manual;       /* no background work: flush and compact only on request (tests, tools) */
    const char *spool; /* acknowledge once it is in this directory, and send it later (engine clickhouse); NULL: no */
    uint64_t spool_bytes; /* 0 = 1 GiB; over it, senders must retry */
    const char *cold;     /* object store for segments older than cold_after (engine segment), s3://...; NULL: none */
    int64_t cold_after;   /* ns, 0 = 1 d */
    size_t memory;        /* of rows not yet in a segment, 0 = 64 MiB */
    size_t cache;         /* for data cached between queries, 0 = 256 MiB */
    size_t dictionary;    /* for stacks and names, 0 = no limit; over it, requests with new stacks are refused */
    size_t answers;       /* for running queries, 0 = no limit; over it they are refused */
    double min_free;      /* share of the disk below which writes are refused, 0 = 0.05; negative = off */
    uint64_t reserve;     /* bytes reserved so that retention can work on a full disk, 0 = 64 MiB */
    enum store_timestamps timestamps;
    void (*report)(void *ctx, const char *line); /* reports damage and repair, from any thread; may be NULL */
    void *report_ctx;
    bool later;           /* a database that cannot be reached now is not an error: all is refused until it can be */
    bool (*ending)(void); /* asked while opening waits for another machine: true gives up; may be NULL */
    int64_t (*now)(void); /* NULL = clock_wall; tests replace it */
    int64_t (*elapsed)(void); /* elapsed time of this machine; NULL = now if that is set, else clock_boot */
};

/* --- questions ---
 *
 * A question is data: text, numbers and enums, nothing that is called back while the engine selects. Matchers of a
 * selector and the filters of a tree are regular expressions as text; an engine compiles them or passes them on. (A
 * matcher also has the compiled expression, for engines that match in this process.) */

struct store_column {
    const struct selector *selector; /* its type must be set */
    int64_t from, to;                /* [from, to) */
    /* If not NULL, only samples that are linked to one of these spans (store_spans.h). An engine that cannot select them
     * fails with -ENOTSUP. */
    const struct store_span_set *spans;
    /* If taken_to is not 0, only samples that were taken in [taken_from, taken_to). A sample without a time counts as taken
     * at the start of its profile. from and to still select profiles by their start and must include the profiles that
     * contain these samples. This reads detail. */
    int64_t taken_from, taken_to;
};

/* Whether the column selects a sample that was taken at this time. */
static inline bool store_column_taken(const struct store_column *c, int64_t time_ns)
{
    return !c->taken_to || (time_ns >= c->taken_from && time_ns < c->taken_to);
}

struct store_query {
    const char *tenant; /* never NULL; "" is the default tenant */
    struct store_column columns[2];
    uint32_t n_columns; /* 1, or 2 for a diff: base and new */
    /* only samples of this trace, of this span of it, or (span alone) of this span in any trace */
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
    bool times_only;     /* of profiles: handle, id and n_samples are not needed and may be wrong */
    size_t memory_limit; /* bytes of the answer, 0 = none */
    const atomic_bool *cancel;
    struct store_notes *notes; /* where every answer adds its notes; may be NULL */
};

/* Whether the query selects samples by their link: by trace, by span or by a set of spans in every column. */
static inline bool store_query_by_span(const struct store_query *q)
{
    return q->has_trace || q->has_span || (q->columns[0].spans && (q->n_columns < 2 || q->columns[1].spans));
}

/* What was acknowledged and is not in the database yet (store_config.spool). */
struct store_spool {
    bool used;
    uint64_t records, bytes;
    int64_t age_ns; /* of the oldest of them */
};

/* Notes on an answer that its reader should know. */
struct store_notes {
    uint64_t profiles, samples;  /* looked at */
    bool coarse;                 /* some edges are rounded to five minutes, since detail was dropped there */
    uint32_t rate_min, rate_max; /* sampling rates in force, in Hz; 0 = not known. Set by query_coverage() */
    double rate_mean; /* samples per second of value, so value * rate_mean is their number; the lower of two columns */
    bool naming;      /* names of some of its functions are to come: ask again. Set by query_names */
    bool also;        /* another source sent CPU time of some of these processes, too: it is counted once */
    char hidden[128]; /* runtimes of some of these processes whose functions are not shown, with "; " between */
    struct store_spool spool; /* is missing from the answer */
    uint32_t damaged;         /* pieces that could not be read and are missing from the answer */
    char damage[200];         /* message about the first of them */
};

enum { STORE_BY_MAX = 16 };

struct store_series_query {
    int64_t step;         /* ns; points are [from + i * step, ...) */
    const struct str *by; /* labels and attributes to group by; none: one series */
    uint32_t n_by;        /* at most STORE_BY_MAX */
    struct str function;  /* if not empty, only stacks that contain it */
};

struct store_points {
    struct arena arena;
    int64_t from, step;
    uint32_t n_series, n_points;
    struct labels *labels; /* per series: the `by` labels; an empty value where samples have no such attribute */
    double *values;        /* n_series rows of n_points */
    struct type type;
};

/* Whose series are listed, and of which time: [from, to). */
struct store_range {
    const char *tenant;
    int64_t from, to;
    struct store_notes *notes; /* may be NULL */
};

/* One series that has data in a range of time, approximately: an engine may know only the first and last profile of an
 * hour or a day. Strings are valid during the call. */
typedef int (*store_series_fn)(void *ctx, const struct type *t, const struct labels *l);

/* A label or an attribute of the selection. value: empty when all names are listed. Strings are valid during the call;
 * the same may be reported more than once. */
typedef int (*store_attribute_fn)(void *ctx, struct str name, struct str value);

struct store_profile {
    struct id128 handle; /* identifies this profile in later queries */
    int64_t time_ns, duration_ns;
    int64_t period_ns;  /* of its sampling, when that is a time; 0 = not known */
    int64_t value;      /* sum over its samples */
    uint32_t n_samples; /* approximate: equal stacks may have been joined, timestamps split */
    const struct type *type;
    const struct labels *labels;
    uint8_t id[16]; /* as sent; zero = none */
};
typedef int (*store_profile_fn)(void *ctx, const struct store_profile *p);
/* Receives a batch of whole profiles as they were sent (stacks, attributes, links, timestamps). */
typedef int (*store_batch_fn)(void *ctx, struct batch *b);

/* A sample and when it was taken; or samples without a time, and when their profile starts. */
struct store_moment {
    int64_t time_ns, value;
    bool exact; /* the sample's own time */
};
typedef int (*store_moment_fn)(void *ctx, const struct store_moment *m);

struct store_stats {
    uint64_t profiles, samples; /* accepted since start */
    uint64_t duplicates, rejected;
    uint64_t series, services, stacks, locations; /* known at present */
    uint64_t segments, segment_bytes, symbol_bytes, log_bytes, catalog_bytes, disk_bytes;
    uint64_t beside_bytes;  /* of other files in the store's directory: spans, uploads, the reserve, ... */
    uint64_t dropped_bytes; /* dropped over the limits of size, since start */
    struct {
        const char *name;
        uint64_t bytes;
    } parts[8];                         /* of segment_bytes, when the store is open read-only; ends with name NULL */
    uint64_t cold_segments, cold_bytes; /* of segments: those in the object store */
    uint64_t remote_requests,
        remote_ns; /* since start: requests to a database server, and the sum of their durations */
    uint64_t cold_rounds, cold_requests;      /* since start: waits for the object store, and requests to it */
    uint64_t cold_read, cold_written;         /* bytes */
    char cold_problem[200];                   /* why segments could not be moved there; "" = no failure */
    uint64_t stored_samples, stored_profiles; /* in segments */
    uint64_t deletions;                       /* deletions whose data is hidden but not yet removed from the disk */
    uint64_t memory_bytes;
    uint64_t cache_bytes; /* of these: data cached between queries */
    int64_t oldest_ns, newest_ns;
    uint64_t flushes, compactions, syncs;
    uint64_t torn;     /* log tails that were cut off at opening: a write interrupted by a crash, or damage there */
    uint64_t newer;    /* segments written by a later version, which are not read */
    uint64_t damaged;  /* damaged pieces that no user has acknowledged yet */
    char damage[200];  /* message about the first of them */
    bool stopped;      /* a sync failed: nothing is acknowledged from then on */
    char problem[240]; /* why nothing is accepted at present; "" = everything is */
    struct store_spool spool;
    int64_t clock_ahead_ns; /* how far the wall clock is ahead of the time that retention trusts; 0 = not ahead */
};

/* What a tenant has on the disk. */
struct store_disk {
    uint64_t profiles, beside; /* bytes; beside: store_config.tenant_beside */
    uint64_t limit;            /* 0: only that of the store */
};

/* What a user has to confirm: that the wall clock is right although it jumped; that damage has been seen. */
enum store_confirm { STORE_CONFIRM_CLOCK, STORE_CONFIRM_DAMAGE };

typedef void (*store_statement_fn)(void *ctx, const char *statement);
typedef void (*store_report_fn)(void *ctx, bool problem, const char *line);

/* The answer of store_ops.callers. */
struct store_callers {
    struct tree *callers, *callees;
    int64_t sum[2]; /* of the whole selection, per column: the base of shares */
};
static inline void store_callers_done(struct store_callers *c)
{
    tree_free(c->callers);
    tree_free(c->callees);
    *c = (struct store_callers){0};
}

struct store_ops {
    const char *name, *help;
    bool in_dir;      /* needs store_config.dir, a directory of this machine */
    bool takes_spool; /* store_config.spool */
    bool takes_cold;  /* store_config.cold */
    int (*open)(const struct store_config *c, struct store **ret, struct err *e);
    /* Refuses a configuration that open() would refuse, without opening or connecting to anything. May be NULL. */
    int (*check_config)(const struct store_config *c, struct err *e);
    /* Creates or updates the tables at c->dir. fn is called for each statement before it is executed; with dry_run, none is.
     * NULL where there is nothing to migrate. */
    int (*migrate)(const struct store_config *c, bool dry_run, store_statement_fn fn, void *ctx, struct err *e);
    /* The store will be closed soon: calls that wait for another machine end within a few seconds, if need be with -ECANCELED. May be
     * NULL. */
    void (*interrupt)(struct store *s);
    void (*close)(struct store *s);
    void (*append)(struct store *s, struct batch *b, const struct sink_context *ctx, struct ack *ack);
    int (*select)(struct store *s, const struct store_query *q, struct tree **ret, struct err *e);
    /* The same selection as sums by row (store_table.h), without building a tree; its granularity follows from the rows,
     * and max_nodes and min_share do not apply. *ret is set only on success, to be freed with store_table_done(). */
    int (*table)(struct store *s, const struct store_query *q, const struct store_table_query *tq,
                 struct store_table *ret, struct err *e);
    /* Column 0 as sums by span (store_spans.h), to be freed with store_spans_done(). */
    int (*spans)(struct store *s, const struct store_query *q, struct store_spans *ret, struct err *e);
    /* Calls fn with the time and the value of each sample of column 0, in no particular order. NULL where the engine has
     * nothing better than export. */
    int (*moments)(struct store *s, const struct store_query *q, store_moment_fn fn, void *ctx, struct err *e);
    /* Column 0 in equal windows of time (store_windows.h), whose number and width are set in *ret. NULL where the engine
     * has nothing better than one select for each window: call store_windows(). */
    int (*windows)(struct store *s, const struct store_query *q, struct store_windows *ret, struct err *e);
    /* Column 0 by window and instance (store_cube.h): sets everything in *ret but from, width_ns, n_windows and the order
     * of cells. NULL where the engine has nothing better than selects: call store_cube(). */
    int (*cube)(struct store *s, const struct store_query *q, const struct store_cube_query *cq, struct store_cube *ret,
                struct err *e);
    /* The callers and callees of a function (exact name): two trees with the function at their top, each with at most
     * max_nodes. Recursion counts once: only the outermost call on a path counts. */
    int (*callers)(struct store *s, const struct store_query *q, struct str function, struct store_callers *ret,
                   struct err *e);
    int (*series)(struct store *s, const struct store_query *q, const struct store_series_query *sq,
                  struct store_points *ret, struct err *e);
    int (*each_series)(struct store *s, const struct store_range *r, store_series_fn fn, void *ctx);
    /* Reports the names of all labels of the series and attributes of resources, profiles and samples that column 0 selects
     * or, with `name`, the values of that one; its selector needs no type. This reads detail. */
    int (*attributes)(struct store *s, const struct store_query *q, struct str name, store_attribute_fn fn, void *ctx,
                      struct err *e);
    int (*profiles)(struct store *s, const struct store_query *q, store_profile_fn fn, void *ctx, struct err *e);
    int (*export)(struct store *s, const struct store_query *q, store_batch_fn fn, void *ctx, struct err *e);
    /* Adds names to locations that were stored without: addresses of the binary with this build ID, in the answer's
     * order. NULL where the engine keeps what was sent as it is. */
    int (*name_later)(struct store *s, const char *tenant, struct str build_id, const uint64_t *addresses,
                      const struct symbol_answer *names, struct err *e);
    /* Deletes everything of these series that starts in the range and was acknowledged before the call. It is in no
     * answer that begins after the call, even after a crash, and is removed from the disk by the next compaction. Data
     * that arrives later is not affected; deleted data that is sent again is still a duplicate (as long as
     * deduplication remembers it). Only matchers on series labels are allowed. */
    int (*delete)(struct store *s, const char *tenant, const struct store_column *what, struct err *e);
    /* Drops data over the limits of age or size and compacts what is due. compact_all: compacts everything possible,
     * now. */
    int (*retain)(struct store *s, bool compact_all, struct err *e);
    /* Applies keep, keep_detail, keep_bytes and services of c from now on; its strings must live as long as they are
     * used. NULL where the engine has no retention. */
    void (*set_retention)(struct store *s, const struct store_config *c);
    /* Maintenance; each is NULL where the engine does not support it: call store_flush() and the other wrappers
     * below. */
    int (*flush)(struct store *s, struct err *e); /* moves data from memory to disk */
    int (*snapshot)(struct store *s, const char *dir, struct err *e);
    int (*stats)(struct store *s, struct store_stats *ret);
    /* NULL where the engine does not know what belongs to whom. */
    int (*disk)(struct store *s, const char *tenant, struct store_disk *ret);
    /* Reads everything; fn is called for each part and for each damage. */
    int (*check)(struct store *s, store_report_fn fn, void *ctx, struct err *e);
    int (*confirm)(struct store *s, enum store_confirm what, struct err *e); /* NULL: there is nothing to confirm */
};

struct store {
    const struct store_ops *ops;
    const char *const *labels; /* of every series (the allow-list), NULL-terminated; a series may have more */
    struct sink sink;          /* store_append() as a sink, for pipelines */
};

/* Parses "clock" or "damage". */
int store_confirm_parse(struct str name, enum store_confirm *ret, struct err *e);

/* Each engine has one line in store.c. Commands choose one by its name or by a location, never by its table. */
extern const struct store_ops store_clickhouse, store_memory, store_segment;
/* "memory", "segment" or "clickhouse"; NULL when there is no engine of that name. */
const struct store_ops *store_engine(struct str name);
/* The engine for a location: "memory:" and NAME://... name it, anything else is a directory of the default engine. NULL
 * when there is no engine of that name. */
const struct store_ops *store_engine_of(struct str place);
/* Opens the store at c->dir with the engine of that location. */
int store_open_place(const struct store_config *c, struct store **ret, struct err *e);

/* Refuses a configuration that store_open() would refuse, without opening anything. */
int store_check_config(const struct store_ops *ops, const struct store_config *c, struct err *e);
int store_open(const struct store_ops *ops, const struct store_config *c, struct store **ret, struct err *e);
/* See store_ops.interrupt; s may be NULL. */
void store_interrupt(struct store *s);
void store_close(struct store *s); /* completes every ack, then frees; s may be NULL */
DEFINE_CLEANUP(struct store *, store_close)

static inline void store_append(struct store *s, struct batch *b, const struct sink_context *ctx, struct ack *ack)
{
    s->ops->append(s, b, ctx, ack);
}
/* Appends and waits: for tools and tests. */
int store_append_wait(struct store *s, struct batch *b, const struct sink_context *ctx, struct ack_result *ret);

/* Maintenance that not every engine supports: without support, store_flush() succeeds and the others return -ENOTSUP
 * with an error message. */
int store_flush(struct store *s, struct err *e);
int store_snapshot(struct store *s, const char *dir, struct err *e);
int store_check(struct store *s, store_report_fn fn, void *ctx, struct err *e);

/* For engines. Checks the question and sets up the answer, without rows. */
int store_points_init(const struct store_query *q, const struct store_series_query *sq, struct store_points *ret,
                      struct err *e);
/* Whether the answer may have that many rows: 0, or -E2BIG when they are over the query's memory limit. */
int store_points_fit(const struct store_query *q, const struct store_points *p, size_t n_rows);
int store_points_refuse(const struct store_points *p, struct err *e); /* the error message for that */
void store_points_done(struct store_points *p);

#endif
