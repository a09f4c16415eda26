/* SPDX-License-Identifier: Apache-2.0 */
/* The interface of a storage extension (file_storage) for exporters: a log for the sending queue. */
#ifndef PIPELINE_STORAGE_H
#define PIPELINE_STORAGE_H

#include "base/qlog.h"
#include "pipeline/graph/component.h"

/* Where the log reports damage: see struct qlog_options. */
struct storage_watch {
    void (*on_damage)(void *arg, uint64_t records, const char *message);
    void *arg;
};

/* Opens the log of this exporter and signal; fails if the extension is not a storage. */
int storage_open_log(struct instance *extension, const char *exporter, enum signal signal,
                     const struct storage_watch *watch, struct qlog **ret, struct err *e);

#endif
