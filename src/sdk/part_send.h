/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends a part of the output of `wick run -o` from a process that cannot write into its directory, because it changed
 * its user or its root. See record/run_parts.h for the protocol.
 */
#ifndef SDK_PART_SEND_H
#define SDK_PART_SEND_H

#include <stddef.h>

#include "base/err.h"

/* Sets the destination: the value of WICK_PARTS, or NULL. */
void part_send_to(const char *parts);
/* Sends one profile. -ENOTCONN if there is no receiver. Background thread only. */
int part_send(const char *type, const void *p, size_t n, struct err *e);

#endif
