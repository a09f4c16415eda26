/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps a table of pods up to date: a thread queries the API server every refresh_interval, and earlier (though not
 * before min_refresh_interval) if a pod was not found, once for each pod. A complete new table replaces the previous
 * one, which is still used for lookups for a while, because the last profiles of a pod arrive after its end. If the
 * server does not answer, a warning is logged from time to time, and the last table stays in use.
 */
#ifndef PIPELINE_K8S_WATCH_H
#define PIPELINE_K8S_WATCH_H

#include <pthread.h>

#include "base/log.h"
#include "base/metrics.h"
#include "pipeline/k8s/k8s_table.h"

enum { K8S_MISSED_MAX = 1024 };

struct k8s_watch {
    /* set by the owner before the start */
    const char *id; /* for messages */
    struct k8s_api api;
    struct k8s_extract extract;
    int64_t refresh_interval, min_refresh_interval;
    struct metric *pods;

    pthread_mutex_t lock; /* protects the tables and missed */
    struct k8s_table *table, *old;
    int64_t table_made, old_made;
    uint64_t missed[K8S_MISSED_MAX]; /* hashes of unknown keys that have triggered a refresh */

    pthread_t thread;
    bool running;
    atomic_bool stopping, asked;
    int wake_fd;
    struct log_limit failures, fulls;
};

void k8s_watch_init(struct k8s_watch *w);
/* wait > 0: fails unless the first table is loaded within that time. */
int k8s_watch_start(struct k8s_watch *w, int64_t wait, struct err *e);
void k8s_watch_stop(struct k8s_watch *w);
void k8s_watch_done(struct k8s_watch *w);

/* From any thread, without waiting for the server: like k8s_table_apply(), and reporting a key that was not found. */
bool k8s_watch_apply(struct k8s_watch *w, struct str key, struct str container, struct kvs_edit *x);
void k8s_watch_miss(struct k8s_watch *w, struct str key);

#endif
