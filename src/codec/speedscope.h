/* SPDX-License-Identifier: Apache-2.0 */
/* speedscope's file format (https://www.speedscope.app/file-format-schema.json): one "sampled" profile per sample
 * type. */
#ifndef CODEC_SPEEDSCOPE_H
#define CODEC_SPEEDSCOPE_H

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

struct batch;
struct profile;

/* Appends profile p of b as JSON. name is shown as the file's title. Samples of value 0 and less are left out of their
 * type, because speedscope does not support negative widths. */
int speedscope_encode(const struct batch *b, const struct profile *p, struct str name, struct buf *out, struct err *e);

#endif
