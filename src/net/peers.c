/* SPDX-License-Identifier: Apache-2.0 */
/* The table of peer addresses and what each of them holds. See peers.h. */
#include "net/peers.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "net/address.h"

void peers_init(struct peers *p)
{
    *p = (struct peers){0};
    pthread_mutex_init(&p->lock, NULL);
}

void peers_done(struct peers *p)
{
    for (size_t i = 0; i < PEERS_BUCKETS; i++)
        for (struct peer *e; (e = p->buckets[i]);) {
            p->buckets[i] = e->next;
            mem_free(e);
        }
    pthread_mutex_destroy(&p->lock);
}

/* Negative if it is not an internet address. */
static int key_of(const struct address *from, uint64_t key[2])
{
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *) &from->sa;
    const struct sockaddr_in *v4 = (const struct sockaddr_in *) &from->sa;
    uint32_t word;

    key[0] = key[1] = 0;
    if (from->sa.ss_family == AF_INET) {
        key[1] = 0xffff00000000ull | ntohl(v4->sin_addr.s_addr);
    } else if (from->sa.ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
        memcpy(&word, v6->sin6_addr.s6_addr + 12, sizeof word);
        key[1] = 0xffff00000000ull | ntohl(word);
    } else if (from->sa.ss_family == AF_INET6) {
        memcpy(&key[0], v6->sin6_addr.s6_addr, sizeof key[0]);
        if (IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr))
            key[1] = 1;
    } else {
        return -EAFNOSUPPORT;
    }
    return 0;
}

static struct peer **slot_of(struct peers *p, const uint64_t key[2])
{
    struct peer **slot = &p->buckets[hash64(key, 2 * sizeof *key) % PEERS_BUCKETS];

    while (*slot && memcmp((*slot)->key, key, sizeof(*slot)->key) != 0)
        slot = &(*slot)->next;
    return slot;
}

int peers_connect(struct peers *p, const struct address *from, unsigned max, struct peer **ret)
{
    uint64_t key[2];
    struct peer **slot;
    int r = 0;

    *ret = NULL;
    if (key_of(from, key) < 0)
        return 0;
    pthread_mutex_lock(&p->lock);
    slot = slot_of(p, key);
    if (!*slot) {
        *slot = mem_zalloc(sizeof **slot);
        if (*slot)
            memcpy((*slot)->key, key, sizeof key);
    }
    if (!*slot) {
        r = -ENOMEM;
    } else if ((*slot)->connections >= max) {
        r = -EUSERS;
    } else {
        (*slot)->connections++;
        (*slot)->refs++;
        *ret = *slot;
    }
    pthread_mutex_unlock(&p->lock);
    return r;
}

static void drop(struct peers *p, struct peer *e)
{
    struct peer **slot;

    if (--e->refs)
        return;
    slot = slot_of(p, e->key);
    *slot = e->next;
    mem_free(e);
}

void peers_disconnect(struct peers *p, struct peer *e)
{
    if (!e)
        return;
    pthread_mutex_lock(&p->lock);
    e->connections--;
    drop(p, e);
    pthread_mutex_unlock(&p->lock);
}

void peers_ref(struct peers *p, struct peer *e)
{
    if (!e)
        return;
    pthread_mutex_lock(&p->lock);
    e->refs++;
    pthread_mutex_unlock(&p->lock);
}

void peers_unref(struct peers *p, struct peer *e)
{
    if (!e)
        return;
    pthread_mutex_lock(&p->lock);
    drop(p, e);
    pthread_mutex_unlock(&p->lock);
}
