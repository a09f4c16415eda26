/* SPDX-License-Identifier: Apache-2.0 */
/* `wick store export`: writes the profiles that a selection finds to a file. */
#ifndef STORE_STORE_EXPORT_H
#define STORE_STORE_EXPORT_H

#include <stdint.h>

#include "base/err.h"
#include "codec/otlp_file.h"

struct store;
struct store_query;

struct store_export {
    const char *output;       /* file; NULL or "-": standard output */
    enum otlp_file_form form; /* OTLP_FILE_NONE: pprof, all profiles joined into one */
};

/* "otlp" (length-prefixed requests), "json" or "pprof"; -EINVAL for other names. */
int store_export_parse(const char *name, enum otlp_file_form *ret);
/* Exports column 0 of q. *ret_profiles counts what was written. */
int store_export_run(struct store *s, const struct store_query *q, const struct store_export *how,
                     uint64_t *ret_profiles, struct err *e);

#endif
