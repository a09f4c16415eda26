/* SPDX-License-Identifier: Apache-2.0 */
/* Messages with file descriptors, over a socket pair. */
#ifndef BASE_FD_PASS_H
#define BASE_FD_PASS_H

#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

enum { FD_PASS_MAX = 4 }; /* descriptors of one message */

/* Sends the bytes with n_fds descriptors. Returns the number of bytes sent, which on a stream may be fewer; the
 * descriptors go with the first one. A closed peer is -EPIPE, without a signal. */
ssize_t fd_pass_send(int to, const struct iovec *io, size_t n_io, const int *fds, size_t n_fds);
/* As recv(): the number of bytes, 0 at the end of the stream. The first max_fds descriptors that came with them are
 * stored in fds and are the caller's; further ones are closed, and unused places are set to -1. */
ssize_t fd_pass_receive(int from, void *to, size_t n, int *fds, size_t max_fds, int flags);

#endif
