/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which process of this host holds a TCP socket. A connection whose local address is the given one counts first, then a
 * listener on that address or on all addresses. The socket's inode comes from /proc/net/tcp and tcp6, its holders from
 * /proc/PID/fd. Forked processes may hold it together: then the one that opened it is the owner, the ancestor of all
 * others. Reading the descriptors of other users' processes requires CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH.
 */
#ifndef PROC_SOCKET_OWNER_H
#define PROC_SOCKET_OWNER_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/str.h"

struct buf;

enum { SOCKET_ADDRESS_MAX = 56, SOCKET_NAME_MAX = 256 };

struct socket_owner {
    pid_t pid;
    uint64_t start_ticks; /* as in proc_stat.h */
    char exe[PATH_MAX];   /* "" if it cannot be read */
    /* Set by others: what the agent calls the service, and the first argument of its command line. "" if not known. */
    char service[SOCKET_NAME_MAX], command[SOCKET_NAME_MAX];
};

/* address: "127.0.0.1:4040" or "[::1]:4040". -ENOENT when no process is found, or several that are not related. */
int socket_owner_find(const char *address, struct socket_owner *ret);
/* "PID TICKS EXE", SERVICE and COMMAND, each ended by a NUL, and back. -EBADMSG when the text is not that. */
void socket_owner_put(const struct socket_owner *o, struct buf *out);
int socket_owner_parse(struct str text, struct socket_owner *ret);

#endif
