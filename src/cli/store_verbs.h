/* SPDX-License-Identifier: Apache-2.0 */
/* What the subcommands of `wick store` share: their options, and how they open a store and the span index beside it. */
#ifndef CLI_STORE_VERBS_H
#define CLI_STORE_VERBS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "conf/paths.h"

struct span_index;
struct store;

struct store_options {
    const char *store, *tenant, *from, *to, *at, *output, *format;
    const char *state, *server;
    int64_t keep;
    bool json, rebuild, dry_run, help;
};

int store_verb_dir(const struct store_options *o, char ret[PATH_SIZE], struct err *e);
/* A command that changes a store must not create one where there is none. */
int store_verb_check(const char *dir, struct err *e);
/* Nothing is dropped, however long the store is open: retention is left to the server, which has the configuration. */
enum store_how { STORE_READ, STORE_WRITE, STORE_MAKE };
int store_verb_open(const struct store_options *o, enum store_how how, struct store **ret, struct err *e);
/* *ret is NULL if the store has no spans. */
int store_verb_spans(const struct store_options *o, bool read_only, struct span_index **ret, struct err *e);

/* What root made in a directory that belongs to another user, whose server has to open it, becomes that user's. `like`: whose owner that is. */
int store_verb_give(const char *dir, const char *like, struct err *e);

/* --- store_copies.c --- */
int store_run_snapshot(const void *options, int argc, char **argv, struct err *e);
int store_run_backup(const void *options, int argc, char **argv, struct err *e);
int store_run_backups(const void *options, int argc, char **argv, struct err *e);
int store_run_restore(const void *options, int argc, char **argv, struct err *e);

#endif
