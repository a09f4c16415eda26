/* SPDX-License-Identifier: Apache-2.0 */
/* The source of the demo's services, which is part of the binary: its server shows lines on machines that do not have the
 * source tree. */
#ifndef DEMO_DEMO_SOURCE_H
#define DEMO_DEMO_SOURCE_H

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

/* As read_source of server/ui_info.h: appends the text of a file that a profile names. -ENOENT if it is not of the demo. */
int demo_source(void *ctx, struct str file, struct buf *out, struct err *e);

#endif
