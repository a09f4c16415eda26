/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration of `wick serve`: files, --set and options combined, read at the start and again at SIGHUP. */
#ifndef SERVE_SERVE_LOAD_H
#define SERVE_SERVE_LOAD_H

#include "alert/alert_rules.h"
#include "base/buf.h"
#include "conf/args.h"
#include "conf/yaml.h"
#include "server/serve_config.h"

struct store_ops;

struct serve_args {
    struct arg_list config, set, scrape;
    const char *store, *http, *otlp_grpc, *otlp_http, *role;
    const char *data_dir; /* where tokens are, and the store unless one is configured */
    bool insecure, check, reference, no_agent, help;
};

struct serve_load {
    struct conf conf; /* owns the strings of config */
    struct serve_config config;
    struct alert_rules *alerts; /* the sections alerts and recording, compiled */
};

int serve_load(const struct serve_args *a, struct serve_load *ret, struct err *e); /* always free *ret */
void serve_load_done(struct serve_load *l);
/* The storage engine of the configuration. */
const struct store_ops *serve_engine(const struct serve_config *c);
/* Whether the store lives in a directory of this machine (store.dir). */
bool serve_store_in_dir(const struct serve_config *c);
/* Names of options that differ, joined by ", ": those that a running server applies, and those that need a restart.
 * Either may be NULL. */
void serve_load_changes(struct serve_load *before, struct serve_load *after, struct buf *ret_now,
                        struct buf *ret_later);

#endif
