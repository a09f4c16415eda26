/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a profile that the user of a command named (codec/input.h) and adds what this machine's binaries say: the stacks of
 * perf.data that were copied are unwound, and its frames get names, files and lines. Binaries are opened by the paths in the
 * profile, so a server must not use this for what strangers send.
 */
#ifndef LOCAL_LOCAL_INPUT_H
#define LOCAL_LOCAL_INPUT_H

#include "codec/input.h"

/* As input_decode() and input_open() with input_local. A message on stderr says how many stacks are incomplete, and why. */
/* path: the file that `in` was read from, or NULL. */
int local_input_decode(struct buf *in, const char *path, enum input_format as, struct batch **ret,
                       enum input_format *ret_format, struct err *e);
int local_input_open(const char *path, enum input_format as, struct batch **ret, struct err *e);

#endif
