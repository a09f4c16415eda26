/* SPDX-License-Identifier: Apache-2.0 */
/* What an exporter asks of a storage extension (file_storage): a log for its queue. */
#ifndef PIPELINE_STORAGE_H
#define PIPELINE_STORAGE_H

#include "pipeline/graph/component.h"
#include "pipeline/delivery/qlog.h"

/* Opens the log of this exporter and signal; words when the extension is no storage. */
int storage_open_log(struct instance *extension, const char *exporter, enum signal signal, struct qlog **ret,
                     struct err *e);

#endif
