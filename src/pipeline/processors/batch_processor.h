/* SPDX-License-Identifier: Apache-2.0 */
/* The `batch` processor, which flow.c refers to by name: see flow.h about persistent queues. Its config begins with
 * struct batch_settings. */
#ifndef PIPELINE_BATCH_PROCESSOR_H
#define PIPELINE_BATCH_PROCESSOR_H

#include "pipeline/graph/component.h"

extern const struct component component_batch_processor;

#endif
