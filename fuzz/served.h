/* SPDX-License-Identifier: Apache-2.0 */
/* A server in the fuzzer's own process: one loop, and connections over socket pairs that are over when served_end() is. */
#ifndef FUZZ_SERVED_H
#define FUZZ_SERVED_H

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/exchange.h"

static struct loop *loop;
static struct http_server *server;

/* Opens a connection and returns the client's end of it, -1 when there is none to be had. */
static inline int served_open(struct http_server_options o)
{
    int fd[2];

    o.n_loops = 1;
    o.loops = &loop;
    if (!server && (loop_new(&loop, NULL) < 0 || http_server_new(&o, &server, NULL) < 0))
        abort();
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd) < 0)
        return -1;
    atomic_fetch_add(&server->connections, 1);
    conn_open(&server->workers[0], fd[0], "fuzz", NULL);
    return fd[1];
}

/* Lets the server work, and reads what it answers. */
static inline void served_run(int fd, int rounds)
{
    char answer[65536];

    for (int i = 0; i < rounds; i++) {
        loop_run_once(loop, 0);
        recv(fd, answer, sizeof answer, 0);
    }
}

/* Hangs up. Nothing may be left of the connection. */
static inline void served_end(int fd)
{
    struct server_worker *w = &server->workers[0];

    close(fd);
    for (int i = 0; i < 20 && w->n_conns; i++)
        loop_run_once(loop, 0);
    while (w->conns)
        conn_close(w->conns);
    if (w->n_handed || atomic_load(&server->buffered))
        abort();
}

#endif
