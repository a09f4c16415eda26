/* SPDX-License-Identifier: Apache-2.0 */
/* The one spelling of code that has no name, in every format and command: by the file that it is in. */
#ifndef BASE_UNNAMED_H
#define BASE_UNNAMED_H

#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

/* [libx264.so.164]; without a file the address, 0x7f01c44; [unknown] without both. A name in brackets keeps them. */
void unnamed_put(struct buf *out, struct str file, uint64_t address);
/* Where the address matters: libx264.so.164+0x1c44. */
void unnamed_put_at(struct buf *out, struct str file, uint64_t address);

#endif
