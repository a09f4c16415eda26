/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one peer address uses of a server: its connections, and the bytes of its requests and responses in memory. There is one entry
 * per IPv4 address and per /64 of IPv6 (a single machine can use all addresses of a /64); none for unix sockets. An
 * entry lives while something refers to it. Safe from any thread.
 */
#ifndef NET_PEERS_H
#define NET_PEERS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct address;

struct peer {
    struct peer *next;
    uint64_t key[2];
    unsigned refs, connections; /* protected by the lock */
    atomic_size_t buffered, answers; /* bytes of requests, and of responses that were not read yet */
};

enum { PEERS_BUCKETS = 1024 };

struct peers {
    pthread_mutex_t lock;
    struct peer *buckets[PEERS_BUCKETS];
};

void peers_init(struct peers *p);
void peers_done(struct peers *p);
/* Counts one more connection of this address. 0 with *ret, which is NULL for unix sockets; -EUSERS if there are max
 * already; -ENOMEM. */
int peers_connect(struct peers *p, const struct address *from, unsigned max, struct peer **ret);
/* Ends a connection and drops its reference. e may be NULL, here and below. */
void peers_disconnect(struct peers *p, struct peer *e);
/* For requests that outlive the connection. */
void peers_ref(struct peers *p, struct peer *e);
void peers_unref(struct peers *p, struct peer *e);

#endif
