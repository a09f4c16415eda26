/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which user of this machine is at the other end of a connection: of a unix socket by its credentials, of a TCP connection
 * over loopback by the kernel's socket table (sock_diag, or /proc/net/tcp where that is not available).
 */
#ifndef NET_PEER_UID_H
#define NET_PEER_UID_H

#include <sys/types.h>

/* The uid, as this process's user namespace has it. -ENOENT when the peer's socket is not in the table of this network
 * namespace or no process holds it any more: the kernel reports those as root's, so that they must not be believed.
 * -EADDRNOTAVAIL for a peer that is not on loopback. One exchange with the kernel, about 10 µs; never blocks on a peer. */
int peer_uid(int fd, uid_t *ret);

#endif
