/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP front of a store: finds the route of a request, checks who asks, and runs the answer on a worker thread.
 *
 * The caller owns what is given (store, auth, workers, loops) and keeps it until front_free(). Further routes (receivers
 * of other protocols, the UI's files, alerts) are mounted before the first request.
 *
 * Rules of the door
 *   - Host must be one of the allowed names (loopback names always are): another page in a browser cannot reach us
 *     through a name of its own (DNS rebinding).
 *   - A request that changes something and comes from a page (Origin) must come from our own.
 *   - Who asks: Authorization: Bearer TOKEN, Basic with the token as password, or the session cookie. With no token made
 *     yet, loopback peers may do everything and nobody else anything.
 *   - A call that takes longer than the limit is stopped (504), one whose peer went away too. Calls that are meant to
 *     take long (route.apart) have threads of their own, few at once, and no limit but their own.
 */
#ifndef SERVER_FRONT_H
#define SERVER_FRONT_H

#include <stdatomic.h>

#include "base/err.h"
#include "net/server.h"
#include "server/auth.h"
#include "server/workers.h"

struct front;
struct name_source;
struct pid_profiler;
struct store;
struct ui_info;

/* One request being answered. */
struct call {
    struct worker_job job;
    struct front *front;
    struct http_request *q;
    const struct route *route;
    struct auth_identity who;
    struct store *store; /* given by store_of, to be given back */
    struct str path_arg; /* what stands for {…} in the route's path, decoded */
    const char *content_type;
    struct buf out; /* the body */
    atomic_bool cancel;
    bool late;                /* cancelled by the time limit */
    int64_t started;          /* monotonic */
    struct call *next, *prev; /* the server's list of running calls */
};

struct route {
    const char *method; /* GET also answers HEAD */
    const char
        *path; /* "/api/v1/labels/{name}/values": one {…} at most, matching one segment; "/ui/" and a star: the rest */
    enum auth_scope scope; /* AUTH_NONE: anybody whose Host is right */
    bool on_loop;          /* quick and never blocking: runs on the event loop; else on a worker */
    /* Fills c->out and c->content_type (JSON by default), or c->q->status and headers. A negative errno becomes an error
     * body with e's words. */
    int (*run)(struct call *c, struct err *e);
    void *arg;
    /* Instead of run: takes the whole request over, on the event loop, and answers it now or later by itself (receivers
     * of other protocols). */
    void (*take)(void *arg, struct http_request *q, const struct auth_identity *who);
    bool host;  /* concerns the whole server or its machine: only for the default tenant */
    bool apart; /* mostly waits, for long: on a thread of its own instead of a worker, without a limit on its time */
};

struct front_options {
    struct store *store;
    struct auth *auth;
    struct workers *workers;
    const char *const *hosts;  /* allowed besides loopback names, NULL-terminated; may be NULL */
    int64_t call_limit_ns;     /* 0 = 30 s */
    size_t memory_limit;       /* of one answer, 0 = 512 MiB */
    int64_t tenant_calls;      /* of one tenant at once, 0 = no limit */
    struct name_source *names; /* of native frames, for /api/v1/symbols; may be NULL */
    const char *version;
    /* More lines for /metrics, of what runs beside the front; may be NULL. */
    void (*metrics)(void *ctx, struct buf *out);
    void *metrics_ctx;
    const struct ui_info *ui;        /* for the web UI; may be NULL */
    const struct pid_profiler *pids; /* for /pid/N/debug/pprof/; may be NULL */
    /* Where a call's questions go when that is not always `store`: gives a store, and takes it back when the call is
     * answered. Any thread. */
    int (*store_of)(void *ctx, struct call *c, struct store **ret, struct err *e);
    void (*store_done)(void *ctx, struct store *s);
    void *store_ctx;
};

int front_new(const struct front_options *o, struct front **ret, struct err *e);
/* Ends the calls that are apart and waits for them. After the HTTP servers stopped, before what such calls use goes. */
void front_stop(struct front *s);
/* After every HTTP server that uses it stopped. */
void front_free(struct front *s);
DEFINE_CLEANUP(struct front *, front_free)
/* Routes live as long as the server; a later one does not hide an earlier one. */
int front_mount(struct front *s, const struct route *routes, size_t n);
/* For http_server_options.handle, with the front as arg. */
void front_handle(void *arg, struct http_request *q);
/* For http_server_options.begin, with the front as arg: refuses by the head alone, so that nobody's body is read who may not
 * send one. */
bool front_begin(void *arg, struct http_request *q);

void front_set_limits(struct front *s, int64_t call_limit_ns, int64_t tenant_calls); /* while it runs */
const struct front_options *front_options(const struct front *s);
const struct route *front_route(const struct front *s, size_t i); /* NULL behind the last */

struct front_stats {
    uint64_t calls, errors, cancelled, late, refused; /* refused: no right, wrong host, queue full */
    uint64_t buckets[12]; /* latency: up to 1 ms, 2, 5, 10, 20, 50, 100, 200, 500, 1 s, 5 s, more */
    uint64_t running;
    double seconds; /* spent in calls */
};
extern const double front_bucket_limits[11]; /* seconds */
void front_stats(struct front *s, struct front_stats *ret);

/* The store that answers this call. */
int call_store(struct call *c, struct store **ret, struct err *e);
/* The value of a query parameter, decoded, in the request's arena; empty when absent. */
struct str call_param(struct call *c, const char *name);
/* A number; -EINVAL with the parameter's name. Absent: *ret stays. */
int call_param_u64(struct call *c, const char *name, uint64_t *ret, struct err *e);

#endif
