/* SPDX-License-Identifier: Apache-2.0 */
/* The options of retry_on_failure and sending_queue, with the Collector's defaults. */
#include <errno.h>

#include "pipeline/delivery/sender.h"

static const char *const sizers[] = {"requests", "items", "bytes", NULL};
static const char *const batch_sizers[] = {"items", "bytes", NULL};

const struct option retry_options[] = {
    {"enabled", OPT_BOOL, offsetof(struct retry_config, enabled), "true", "retry failed requests"},
    {"initial_interval", OPT_DURATION, offsetof(struct retry_config, initial_interval), "5s",
     "delay before the first retry"},
    {"randomization_factor", OPT_DOUBLE, offsetof(struct retry_config, randomization_factor), "0.5",
     "fraction by which delays vary randomly"},
    {"multiplier", OPT_DOUBLE, offsetof(struct retry_config, multiplier), "1.5", "factor by which delays grow"},
    {"max_interval", OPT_DURATION, offsetof(struct retry_config, max_interval), "30s", "longest delay between retries"},
    {"max_elapsed_time", OPT_DURATION, offsetof(struct retry_config, max_elapsed_time), "300s",
     "drop a request after this time; 0: never. Data in a sending_queue on disk is dropped only if this is set",
     .present = offsetof(struct retry_config, has_max_elapsed_time)},
    {0},
};

static const struct option partition_options[] = {
    {"metadata_keys", OPT_IGNORED, 0, NULL, "batches are not partitioned by metadata"},
    {0},
};

static const struct option batch_options[] = {
    {"flush_timeout", OPT_DURATION, offsetof(struct queue_batch_config, flush_timeout), "200ms",
     "send a batch after this time, whatever its size"},
    {"min_size", OPT_INT, offsetof(struct queue_batch_config, min_size), "8192",
     "send a batch once it reaches this size"},
    {"max_size", OPT_INT, offsetof(struct queue_batch_config, max_size), "0", "maximum size of a batch; 0: no limit"},
    {"sizer", OPT_ENUM, offsetof(struct queue_batch_config, sizer), "items",
     "unit of sizes; items are samples, bytes are bytes in memory", .words = batch_sizers},
    {"partition", OPT_TABLE, 0, NULL, "no effect", .table = partition_options},
    {0},
};

const struct option queue_options[] = {
    {"enabled", OPT_BOOL, offsetof(struct queue_config, enabled), "true",
     "false: senders wait until their data has been sent"},
    {"num_consumers", OPT_INT, offsetof(struct queue_config, num_consumers), "10", "number of requests in flight"},
    {"queue_size", OPT_INT, offsetof(struct queue_config, queue_size), "1000", "capacity of the queue"},
    {"sizer", OPT_ENUM, offsetof(struct queue_config, sizer), "requests", "unit of queue_size", .words = sizers},
    {"block_on_overflow", OPT_BOOL, offsetof(struct queue_config, block_on_overflow), "false",
     "block senders while the queue is full, instead of refusing data"},
    {"wait_for_result", OPT_BOOL, offsetof(struct queue_config, wait_for_result), "false",
     "acknowledge data when it has been sent, not when it has been queued"},
    {"storage", OPT_STRING, offsetof(struct queue_config, storage), NULL,
     "a file_storage extension; the queue is then on disk and survives a crash"},
    {"batch", OPT_TABLE, offsetof(struct queue_config, batch), NULL, "merge queued data into batches",
     .table = batch_options, .present = offsetof(struct queue_config, has_batch)},
    {0},
};

int sender_check(const struct retry_config *r, const struct queue_config *q, const struct conf_node *node,
                 struct err *e)
{
    if (r->initial_interval < 0 || r->max_interval < 0 || r->max_elapsed_time < 0 || r->multiplier < 0)
        return conf_error(node, -EINVAL, e, "retry_on_failure: intervals must not be negative");
    if (r->randomization_factor < 0 || r->randomization_factor > 1)
        return conf_error(node, -EINVAL, e, "retry_on_failure: 'randomization_factor' must be within [0, 1]");
    if (q->enabled && q->num_consumers <= 0)
        return conf_error(node, -EINVAL, e, "sending_queue: 'num_consumers' must be positive");
    if (q->enabled && q->queue_size <= 0)
        return conf_error(node, -EINVAL, e, "sending_queue: 'queue_size' must be positive");
    if (q->enabled && q->storage && q->wait_for_result)
        return conf_error(node, -EINVAL, e, "sending_queue: 'wait_for_result' cannot be used with 'storage'");
    if (q->has_batch && q->batch.max_size && q->batch.max_size < q->batch.min_size)
        return conf_error(node, -EINVAL, e, "sending_queue: batch 'max_size' must be at least 'min_size'");
    return 0;
}
