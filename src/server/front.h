/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP front of a store: finds the route of a request, checks the sender's rights, and runs the call on a worker
 * thread.
 *
 * The caller owns what it passes in (store, auth, workers, loops) and keeps it until front_free(). Further routes
 * (receivers of other protocols, the UI's files, alerts) are mounted before the first request.
 *
 * Rules of admission
 *   - Host must be one of the allowed names (loopback names always are), so that a foreign web page cannot reach the
 *     server through a host name of its own (DNS rebinding).
 *   - A request that changes something and has an Origin header must come from our own origin.
 *   - The sender is identified by Authorization: Bearer TOKEN, Basic with the token as password, or the session cookie.
 *     While no token exists, the uid of a local connection decides; see auth.h.
 *   - A call that exceeds the time limit is stopped (504); so is one whose peer has disconnected. Calls that are meant
 *     to take long (route.own_thread) run on threads of their own, a few per tenant, and only their own limits apply.
 *   - Tenants take turns at the workers (workers.h). What tells an operator how the server is (route.operation) has a
 *     worker of its own.
 */
#ifndef SERVER_FRONT_H
#define SERVER_FRONT_H

#include <stdatomic.h>

#include "base/err.h"
#include "net/server.h"
#include "server/answer_cache.h"
#include "server/auth.h"
#include "server/tenant_shares.h"
#include "server/workers.h"
#include "store/store.h"

struct alerts;
struct audit;
struct front;
struct name_source;
struct oidc;
struct pid_profiler;
struct scraping;
struct snapshots;
struct span_index;
struct store;
struct kept_rules;
struct tenant_files;
struct ui_info;

/* One request being answered. */
struct call {
    struct worker_job job;
    struct front *front;
    struct http_request *q;
    const struct route *route;
    struct auth_identity who;
    struct tenant_share *share; /* of the tenant */
    struct store *store;        /* obtained from store_of, to be released */
    struct str path_arg;        /* what matched {…} in the route's path, decoded */
    const char *content_type;
    struct buf out;           /* the response body */
    struct store_notes notes; /* on the answer; damage goes into a header */
    atomic_bool cancel;
    bool counted, owns_thread;   /* in the tenant's share */
    bool late;                   /* cancelled by the time limit */
    int64_t started;             /* monotonic */
    struct answer_waiter waiter; /* while it waits for an answer that another call makes */
    struct call *next, *prev;    /* the server's list of running calls */
};

enum { CALL_WAITS = 1 << 16 }; /* returned by run: call_resume() will run it again */

struct route {
    const char *method; /* GET also answers HEAD */
    const char
        *path; /* "/api/v1/labels/{name}/values": at most one {…}, matching one segment; "/ui/" and a star: the rest */
    enum auth_scope scope; /* AUTH_NONE: any client whose Host is allowed */
    bool on_loop;          /* fast and never blocking: runs on the event loop; else on a worker */
    /* Fills c->out and c->content_type (JSON by default), or c->q->status and headers. A negative errno becomes an
     * error response with the message in e; CALL_WAITS: not yet, call_resume() will follow. */
    int (*run)(struct call *c, struct err *e);
    void *arg;
    const struct record_field *body, *answer; /* what a request and an answer of JSON consist of, if it is described */
    /* Instead of run: takes over the whole request on the event loop and answers it, immediately or later (receivers of
     * other protocols). */
    void (*take)(void *arg, struct http_request *q, const struct auth_identity *who);
    bool audited;    /* noted in the audit log, as all that need AUTH_WRITE or AUTH_ADMIN and change something are */
    bool operation;  /* of the server: answered by a worker that no query can occupy */
    bool host;       /* concerns the whole server or its machine: only for the default tenant */
    bool own_thread; /* mostly waits, for long: runs on a thread of its own instead of a worker, without a time limit */
};

/* Noted in the audit log: what changes something, but for profiles that are sent. */
bool route_is_audited(const struct route *r);

struct front_options {
    struct store *store;
    struct auth *auth;
    struct workers *workers;
    const char *const *hosts;   /* allowed besides loopback names, NULL-terminated; may be NULL */
    int64_t call_limit_ns;      /* 0 = 30 s */
    size_t memory_limit;        /* per response, 0 = 512 MiB */
    int64_t tenant_calls;       /* per tenant, waiting and running; 0 = no limit */
    size_t tenant_answers;      /* bytes of responses that a tenant has not read; 0 = no limit */
    struct tenant_files *files; /* settings and uploads of Pyroscope's clients; may be NULL if its API is not mounted */
    struct name_source *names;  /* names of native frames, for /api/v1/symbols; may be NULL */
    struct span_index *spans;   /* spans of traces; may be NULL */
    const char *trace_link;     /* template of a URL that shows a trace; may be NULL */
    const char *version;
    /* Appends further lines for /metrics, about what runs beside the front; may be NULL. */
    void (*metrics)(void *ctx, struct buf *out);
    void *metrics_ctx;
    struct audit *audit;               /* may be NULL */
    struct oidc *oidc;                 /* for /oidc/; may be NULL */
    const char *public_url;            /* of this server; may be NULL */
    const struct ui_info *ui;          /* for the web UI; may be NULL */
    const struct pid_profiler *pids;   /* for /pid/N/debug/pprof/; may be NULL */
    const struct scraping *scraping;   /* for /api/v1/scrape; may be NULL */
    const struct snapshots *snapshots; /* for /api/v1/snapshot; may be NULL */
    struct alerts *alerts;             /* for /api/v1/alerts; may be NULL */
    struct kept_rules *rules;     /* that people add; may be NULL */
    /* Returns the store that answers a call, if that is not always `store`, and releases it when the call is answered.
     * Called from any thread. */
    int (*store_of)(void *ctx, struct call *c, struct store **ret, struct err *e);
    void (*store_done)(void *ctx, struct store *s);
    void *store_ctx;
};

int front_new(const struct front_options *o, struct front **ret, struct err *e);
/* Stops the calls on threads of their own and waits for them. Call it after the HTTP servers have stopped and before
 * what such calls use is freed. */
void front_stop(struct front *s);
/* Call it after every HTTP server that uses the front has stopped. */
void front_free(struct front *s);
DEFINE_CLEANUP(struct front *, front_free)
/* routes must stay valid as long as the server. If two routes match, the one mounted first is used. */
int front_mount(struct front *s, const struct route *routes, size_t n);
/* For http_server_options.handle, with the front as arg. */
void front_handle(void *arg, struct http_request *q);
/* For http_server_options.begin, with the front as arg: refuses a request after its headers, so that the body is not
 * read if the sender may not send one. */
bool front_begin(void *arg, struct http_request *q);

void front_set_limits(struct front *s, int64_t call_limit_ns, int64_t tenant_calls); /* at any time */
const struct front_options *front_options(const struct front *s);
struct answer_cache *front_answers(const struct front *s);        /* answers that are given again */
const struct route *front_route(const struct front *s, size_t i); /* NULL after the last */

enum { FRONT_BUCKETS = 11 };

struct front_stats {
    uint64_t calls, errors, cancelled, late, refused; /* refused: no right, wrong host, or queue full */
    uint64_t buckets[FRONT_BUCKETS + 1]; /* latency: up to 1 ms, 2, 5, 10, 20, 50, 100, 200, 500, 1 s, 5 s, more */
    uint64_t running;
    double seconds; /* total time of all calls */
};
extern const double front_bucket_limits[FRONT_BUCKETS]; /* seconds */
void front_stats(struct front *s, struct front_stats *ret);

/* Runs a call again that waited: its `run` returned CALL_WAITS. */
void call_resume(struct call *c);
/* The store that answers this call. */
int call_store(struct call *c, struct store **ret, struct err *e);
/* A sentence on damage that was found while the answer was made, in the request's arena; empty when there was none. */
struct str call_damage(struct call *c);
/* The value of a query parameter, decoded, in the request's arena; empty when absent. */
struct str call_param(struct call *c, const char *name);
/* Parses a number; -EINVAL with the parameter's name. If it is absent, *ret is unchanged. */
int call_param_u64(struct call *c, const char *name, uint64_t *ret, struct err *e);

#endif
