/* SPDX-License-Identifier: Apache-2.0 */
/* Who holds a TCP port, told from /proc: for the one message that a user reads when a port is taken. */
#ifndef NET_HOLDER_H
#define NET_HOLDER_H

#include <stdbool.h>
#include <stddef.h>

/* "process 1234 (otelcol)" into out; false when nobody listens there or it cannot be seen (another user's process). */
bool holder_of_port(int port, char *out, size_t n);

#endif
