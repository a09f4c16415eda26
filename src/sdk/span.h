/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calling thread's span and labels, published as OTEP 4947 specifies: a thread-local pointer that readers outside
 * the process and our own handler follow. The process context (OTEP 4719, "OTEL_CTX") contains the names of the keys.
 *
 *   record, packed   trace_id[16] @0, span_id[8] @16, valid @24 (1 = valid), trace_flags @25, attrs_data_size u16 @26,
 *                    attrs_data @28: entries {u8 key index, u8 length, bytes}
 *
 * Only the owning thread writes; compiler fences suffice because readers look while it is stopped. The pointer is not
 * changed once it is set; `valid` is toggled.
 */
#ifndef SDK_SPAN_H
#define SDK_SPAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum { SPAN_ATTRS_MAX = 612, SPAN_KEYS_MAX = 256 };

struct span_record {
    uint8_t trace_id[16];
    uint8_t span_id[8];
    uint8_t valid;
    uint8_t trace_flags;
    uint16_t attrs_data_size;
    uint8_t attrs_data[SPAN_ATTRS_MAX];
} __attribute__((packed, aligned(8)));

/* Exported in .dynsym: there is one per process, ours or another SDK's. */
extern __thread struct span_record *otel_thread_ctx_v1;

/* The distance of the variable from the thread pointer in the calling thread. If it is the same in another thread, the
 * variable is static TLS, and a handler may read it. */
int64_t span_context_distance(void);
/* The name of a key index, {NULL} when unknown. */
struct str span_key(uint8_t index);
/* The index of a key, which is created if necessary; -1 if there is no room. Not in a signal handler. */
int span_key_number(const char *name);
/*
 * Publishes or updates OTEL_CTX. types, such as "cpu,alloc,heap", are the profile types that this process currently
 * sends by OTLP, "" for none. They become the attribute `wick.profile.types`: an agent on the same host marks its own
 * profiles of that time, so that a server that gets both counts them once.
 */
int span_publish_process(struct str service_name, struct str service_version, const char *types);
/* The random number that is in the context and in the profiles as `wick.process`: by it they are known to be of one
 * process. */
const char *span_process_number(void);
/* After fork(): the child does not have the mapping. */
void span_reset_child(void);

#endif
