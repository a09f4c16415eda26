/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which user of this machine is at the other end of a connection: for a unix socket from its credentials, for a TCP
 * connection over loopback from the kernel's socket table (sock_diag, or /proc/net/tcp if that is not available).
 */
#ifndef NET_PEER_UID_H
#define NET_PEER_UID_H

#include <sys/types.h>

/* The uid, as seen in this process's user namespace. -ENOENT if the peer's socket is not in the table of this network
 * namespace or no process holds it any more: the kernel reports such sockets as root's, so their uid must not be
 * trusted.
 * -EADDRNOTAVAIL for a peer that is not on loopback. One exchange with the kernel, about 10 µs; never blocks on a
 * peer. */
int peer_uid(int fd, uid_t *ret);

#endif
