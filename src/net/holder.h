/* SPDX-License-Identifier: Apache-2.0 */
/* Finds out from /proc which process holds a TCP port, for the error message that says the port is in use. */
#ifndef NET_HOLDER_H
#define NET_HOLDER_H

#include <stdbool.h>
#include <stddef.h>

/* Writes "process 1234 (otelcol)" to out; false if no process listens there or it cannot be seen (another user's
 * process). */
bool holder_of_port(int port, char *out, size_t n);

#endif
