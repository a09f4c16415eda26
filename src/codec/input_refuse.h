/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are often given to wick and that it does not read: what they are, and what to do. */
#ifndef CODEC_INPUT_REFUSE_H
#define CODEC_INPUT_REFUSE_H

#include "base/str.h"

/* A sentence about data in a known format that is not supported, or NULL. */
const char *input_refuse(struct str data);

#endif
