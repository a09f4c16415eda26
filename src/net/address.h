/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where to listen and where to connect: "host:port", "[::1]:port", ":port" (every address), "port", "unix:/path".
 * Sockets are returned non-blocking and close-on-exec. If a port is in use, the error message names the process that
 * holds it, if /proc shows it.
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

/* Splits; default_port (may be NULL) is used if the port is missing. -EINVAL with an error message. */
int address_split(const char *text, const char *default_port, struct address_parts *ret, struct err *e);
/* Accepts numeric hosts and unix paths only and never queries a name server. -ENOENT for names. */
int address_numeric(const struct address_parts *p, struct address *ret);
/* Calls the resolver, which may block for seconds: not on a loop's thread. Fills up to n addresses and returns their
 * number. */
int address_resolve(const struct address_parts *p, struct address *ret, size_t n, struct err *e);
/* "127.0.0.1:4317", "[::1]:80", "unix:/x" */
void address_format(const struct address *a, char *out, size_t n);
int address_port(const struct address *a); /* 0 for unix sockets */
void address_set_port(struct address *a, int port);
bool address_is_loopback(const struct address *a);

/* Binds and listens. A stale unix socket (one that no process listens on) is replaced. On -EADDRINUSE the message names
 * the holder. ret_bound holds the port if 0 was requested. */
int address_listen(const struct address *a, int *ret_fd, struct address *ret_bound, struct err *e);
/* Starts connecting: returns 0 if connected, 1 if in progress (wait until writable, then call
 * address_connect_result()). */
int address_connect(const struct address *a, int *ret_fd, struct err *e);
int address_connect_result(int fd); /* 0 or the negative errno of the attempt */
/* Sends small packets at once (TCP_NODELAY); the kernel detects a vanished peer within about two minutes. */
void address_tune(int fd);

/* True for 169.254.0.0/16 and fe80::/10, as text with or without brackets and port: where clouds serve the credentials of
 * a machine, and what no scrape and no message should be sent to. */
bool address_is_link_local(const char *address);

#endif
