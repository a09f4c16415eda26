/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where to listen and where to connect: "host:port", "[::1]:port", ":port" (every address), "port", "unix:/path".
 * Sockets come out non-blocking and close-on-exec. A taken port is named with the process that holds it, where /proc
 * lets us see it.
 */
#ifndef NET_ADDRESS_H
#define NET_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/str.h"

enum { ADDRESS_TEXT_MAX = 128 };

struct address {
    struct sockaddr_storage sa;
    socklen_t len;
};

struct address_parts {
    bool is_unix;
    char host[256]; /* without brackets, "" for every address; the path of a unix socket */
    char port[16];
};

/* Splits; default_port (may be NULL) fills in a missing one. -EINVAL with words. */
int address_split(const char *text, const char *default_port, struct address_parts *ret, struct err *e);
/* Numeric hosts and unix paths only: never asks a name server. -ENOENT for names. */
int address_numeric(const struct address_parts *p, struct address *ret);
/* Asks the resolver, which may block for seconds: threads only. Up to n addresses; returns how many. */
int address_resolve(const struct address_parts *p, struct address *ret, size_t n, struct err *e);
/* "127.0.0.1:4317", "[::1]:80", "unix:/x" */
void address_format(const struct address *a, char *out, size_t n);
int address_port(const struct address *a); /* 0 for unix sockets */
void address_set_port(struct address *a, int port);
bool address_is_loopback(const struct address *a);

/* Binds and listens. A stale unix socket (nobody accepts behind it) is replaced. On -EADDRINUSE the message names the
 * holder. ret_bound tells the port when 0 was asked for. */
int address_listen(const struct address *a, int *ret_fd, struct address *ret_bound, struct err *e);
/* Starts connecting: 0 when connected, 1 when under way (wait for writable, then address_connect_result()). */
int address_connect(const struct address *a, int *ret_fd, struct err *e);
int address_connect_result(int fd); /* 0 or the negative errno of the attempt */
/* Small packets at once; a peer that vanished is noticed by the kernel within about two minutes. */
void address_tune(int fd);

#endif
