/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps a table of pods fresh: a thread asks the API server every refresh_interval, and earlier (though not before
 * min_refresh_interval) when somebody missed a pod, once for each. A table is whole when it takes the place of the one
 * before, which is still looked at for a while: the last profiles of a pod come after its end. A server that does not
 * answer is a warning now and then; the last table stays.
 */
#ifndef PIPELINE_K8S_WATCH_H
#define PIPELINE_K8S_WATCH_H

#include <pthread.h>

#include "base/log.h"
#include "pipeline/graph/metrics.h"
#include "pipeline/k8s/k8s_table.h"

enum { K8S_MISSED_MAX = 1024 };

struct k8s_watch {
    /* set by the owner before the start */
    const char *id; /* for messages */
    struct k8s_api api;
    struct k8s_extract extract;
    int64_t refresh_interval, min_refresh_interval;
    struct metric *pods;

    pthread_mutex_t lock; /* of the tables and missed */
    struct k8s_table *table, *old;
    int64_t table_made, old_made;
    uint64_t missed[K8S_MISSED_MAX]; /* hashes of keys that were asked for because they were not known */

    pthread_t thread;
    bool running;
    atomic_bool stopping, asked;
    int wake_fd;
    struct log_limit failures, fulls;
};

void k8s_watch_init(struct k8s_watch *w);
/* wait > 0: the first table must come within that time. */
int k8s_watch_start(struct k8s_watch *w, int64_t wait, struct err *e);
void k8s_watch_stop(struct k8s_watch *w);
void k8s_watch_done(struct k8s_watch *w);

/* From any thread, without waiting for the server: as k8s_table_apply(), and that a key was known nowhere. */
bool k8s_watch_apply(struct k8s_watch *w, struct str key, struct str container, struct kvs_edit *x);
void k8s_watch_miss(struct k8s_watch *w, struct str key);

#endif
