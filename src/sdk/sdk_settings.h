/* SPDX-License-Identifier: Apache-2.0 */
/* Options and environment, read once and checked, with defaults filled in. */
#ifndef SDK_SDK_SETTINGS_H
#define SDK_SDK_SETTINGS_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"
#include "model/batch.h"
#include "wick.h"

enum { SETTINGS_ATTRS_MAX = 128, SETTINGS_HEADERS_MAX = 32 };

struct settings_header {
    struct str name, value; /* name in lower case */
};

struct settings {
    struct arena arena; /* all strings */
    struct str service_name, service_version;
    struct kv attrs[SETTINGS_ATTRS_MAX];
    uint32_t n_attrs;

    bool exporting;        /* there is an endpoint to export to */
    struct str host, path; /* path of the HTTP request, without the OTLP/HTTP suffix */
    uint16_t port;
    bool tls;
    int protocol;    /* WICK_PROTOCOL_GRPC or _HTTP; _AUTO until the peer was asked */
    int compression; /* WICK_COMPRESSION_NONE or _GZIP */
    struct settings_header headers[SETTINGS_HEADERS_MAX];
    uint32_t n_headers;
    const char *ca_file, *file;
    int64_t timeout_ms; /* of an export */
    int64_t stop_ms;    /* timeout of the last export, when the provider is stopped */

    unsigned types, rate, max_depth, max_samples, export_interval_ms;
    uint64_t alloc_interval, lock_interval_ns;
    int signal;
    double cpu_budget;
    size_t memory_budget;
    bool paused;
};

/* o may come from an older header (with a smaller size) or be NULL. -EINVAL with an error message that names the option
 * or variable. */
int settings_read(struct settings *s, const struct wick_options *o, struct err *e);
void settings_done(struct settings *s);
/* "cpu,wall,heap" -> WICK_CPU | ... */
int settings_parse_types(struct str s, unsigned *ret, struct err *e);

#endif
