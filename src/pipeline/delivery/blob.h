/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The signals, and requests of those that wick does not decode: an encoded OTLP export request, reference-counted and
 * immutable. It is handed on as a payload (sink.h).
 */
#ifndef PIPELINE_BLOB_H
#define PIPELINE_BLOB_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/buf.h"
#include "model/sink.h"

enum signal { SIGNAL_PROFILES, SIGNAL_TRACES, SIGNAL_METRICS, SIGNAL_LOGS, SIGNALS };

extern const char *const signal_names[SIGNALS]; /* "profiles" ... */
/* The names of the counted items in metrics: "profile_samples", "spans", "metric_points", "log_records". */
extern const char *const signal_items[SIGNALS];

struct blob {
    _Atomic uint32_t refs;
    enum signal signal;
    bool json; /* OTLP/JSON, else protobuf */
    uint32_t items;
    size_t n;
    char *p;
};

/* Takes ownership of the buffer's memory (in is empty then); on failure in is unchanged. */
int blob_new(enum signal signal, bool json, struct buf *in, struct blob **ret);
struct blob *blob_ref(struct blob *b);
void blob_unref(struct blob *b);
DEFINE_CLEANUP(struct blob *, blob_unref)
/* Checks that protobuf bytes have the shape of a request of this signal (resource > scope > item, consistent lengths),
 * and counts the items. -EINVAL. */
int blob_count(enum signal signal, const void *p, size_t n, uint32_t *ret_items);

#endif
