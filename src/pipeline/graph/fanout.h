/* SPDX-License-Identifier: Apache-2.0 */
/* One sink that passes data on to several. The acknowledgement waits for all of them and has the worst result. */
#ifndef PIPELINE_FANOUT_H
#define PIPELINE_FANOUT_H

#include "pipeline/delivery/blob.h"

struct fanout;

/* Either kind may be empty. The sinks still belong to their owners. */
int fanout_new(struct sink *const *sinks, uint32_t n, struct blob_sink *const *blobs, uint32_t n_blobs,
               struct fanout **ret);
void fanout_free(struct fanout *f);
struct sink *fanout_sink(struct fanout *f);
struct blob_sink *fanout_blobs(struct fanout *f);

#endif
