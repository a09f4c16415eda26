/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the running server share (serve_run.c, serve_listen.c, serve_reach.c); serve_run.h is the public
 * interface. */
#ifndef SERVE_SERVE_STATE_H
#define SERVE_SERVE_STATE_H

#include <stdatomic.h>

#include "base/arena.h"
#include "base/buf.h"
#include "net/loop.h"
#include "serve/serve_load.h"
#include "serve/serve_names.h"
#include "serve/serve_rights.h"
#include "serve/serve_run.h"
#include "serve/serve_traces.h"
#include "server/pid_profiler.h"
#include "server/serve_config.h"
#include "server/snapshots.h"
#include "server/ui_info.h"

enum { SERVE_PATH_SIZE = 4096 };

struct agent_feed;
struct alerts;
struct audit;
struct disk_shares;
struct http_server;
struct oidc;
struct kept_rules;
struct serve_scrape;
struct store_config;
struct store_ops;
struct tenant_files;

/* A question to an event loop (serve_pulse()). */
struct pulse_beat {
    struct loop_call call;
    atomic_bool asked; /* and not answered yet */
};

/* Everything that runs; the list of parts in serve_run.c starts and stops it. */
struct serve {
    struct serve_args *args;
    struct serve_load first, *again; /* as of the start; as reloaded last, NULL if never */
    struct serve_config config;      /* that of first */
    struct flow *pipelines;
    struct agent_feed *agent; /* a child process with privileges that this one drops; NULL: none */
    struct serve_rights rights;
    size_t memory_limit; /* limits.memory, resolved */
    char data_dir[SERVE_PATH_SIZE], store_dir[SERVE_PATH_SIZE];
    const char *spool_dir;                  /* of store.ack: spool */
    const char *token_file, *reached_store; /* the paths by which this process reaches them */
    struct arena paths;
    struct disk_shares *disk;
    struct store *store;
    struct serve_names names;
    struct tenant_files *files;
    struct kept_rules *rules; /* that clients added */
    struct serve_traces traces;
    struct auth *auth;
    struct audit *audit;
    struct oidc *oidc;
    struct workers *workers;
    struct loop_group *loops;
    struct pulse_beat beats[8]; /* by loop */
    struct front *front;
    struct serve_intake *intake;
    struct serve_scrape *scrape;
    struct alerts *alerts;
    struct ui_info ui;
    struct pid_profiler pids;
    struct snapshots snapshots;
    atomic_bool in_snapshot; /* one at a time */
    char otlp_grpc[256], otlp_http[256], otlp_note[1100];
    struct tls_context *tls;
    struct http_server *api, *grpc, *http;
    const char **hosts;
    char address[256]; /* address of the API */
};

/* serve_store.c */
/* What the store is opened with. Everything that can be wrong in the configuration is refused here, by the start and by
 * `--check` alike. */
int serve_store_settings(struct serve *s, struct store_config *ret, const struct store_ops **ret_engine, struct err *e);
/* Fills in what is kept and for how long. The strings still belong to the configuration. */
void serve_store_retention(const struct serve_retention *r, struct store_config *ret);
int serve_store_open(struct serve *s, struct err *e);

/* serve_front.c */
int serve_start_front(struct serve *s, struct err *e);
void serve_stop_front(struct serve *s);
struct ui_settings serve_ui_settings(const struct serve_config *c);

/* serve_listen.c */
int serve_check_exposure(const struct serve *s, struct err *e);
int serve_start_tls(struct serve *s, struct err *e);
int serve_start_listeners(struct serve *s, struct err *e);
void serve_stop_listeners(struct serve *s);
size_t serve_answers_memory(const struct serve *s); /* for responses that were not read yet */
void serve_listen_metrics(const struct serve *s, struct buf *out);
bool serve_has_low_port(const struct serve_config *c);

/* serve_reach.c */
int serve_drop_rights(struct serve *s, struct err *e);
/* Directories of source code, by the paths by which this process reaches them. */
int serve_reach_sources(struct serve *s, struct serve_config *c);

#endif
