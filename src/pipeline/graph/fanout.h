/* SPDX-License-Identifier: Apache-2.0 */
/* One sink that passes data on to several. The acknowledgement waits for all of them and has the worst result. */
#ifndef PIPELINE_FANOUT_H
#define PIPELINE_FANOUT_H

#include "model/sink.h"

struct fanout;

/* The sinks still belong to their owners. */
int fanout_new(struct sink *const *sinks, uint32_t n, struct fanout **ret);
void fanout_free(struct fanout *f);
struct sink *fanout_sink(struct fanout *f);

#endif
