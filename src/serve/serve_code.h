/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The instructions of a function, for the web UI. The binary is a file that the tenant uploaded, one from debuginfod or, for
 * the default tenant, the file of this machine that profiles name, if it has the build ID that they name.
 *
 * Binaries are untrusted. A confined process (`wick symbolize --code`) finds the bytes of the function; objdump gets these
 * bytes alone and never the file; names and lines come from the symbolizer, which is confined, too.
 */
#ifndef SERVE_SERVE_CODE_H
#define SERVE_SERVE_CODE_H

#include "server/ui_info.h"

/* ui_info.code; ctx is a struct name_source. */
int serve_code(void *ctx, const struct ui_code *q, struct buf *out, struct err *e);

#endif
