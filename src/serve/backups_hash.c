/* SPDX-License-Identifier: Apache-2.0 */
/* Hashes files for backups; see backups_hash.h. */
#include "serve/backups_hash.h"

#include <errno.h>
#include <string.h>

#include "base/fd.h"
#include "base/mem.h"
#include "objects/sigv4.h"
#include "serve/backups_place.h"

enum { PIECE = 1 << 20 };

int backups_hash_file(int fd, uint64_t *ret_size, char ret[BACKUPS_HEX + 1])
{
    _cleanup_(mem_freep) char *piece = mem_alloc(PIECE);
    uint8_t hash[BACKUPS_HASH];
    struct sha256 s;
    uint64_t at = 0;

    if (!piece)
        return -ENOMEM;
    sha256_init(&s);
    for (;;) {
        ssize_t n = fd_pread(fd, piece, PIECE, (off_t) at);

        if (n < 0)
            return (int) n;
        if (n == 0)
            break;
        sha256_add(&s, piece, (size_t) n);
        at += (uint64_t) n;
    }
    sha256_final(&s, hash);
    sigv4_hex(hash, ret);
    *ret_size = at;
    return 0;
}

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int backups_hash_parse(struct str hex, uint8_t ret[BACKUPS_HASH])
{
    if (hex.n != BACKUPS_HEX)
        return -EINVAL;
    for (uint32_t i = 0; i < BACKUPS_HASH; i++) {
        int high = digit(hex.p[2 * i]), low = digit(hex.p[2 * i + 1]);

        if (high < 0 || low < 0)
            return -EINVAL;
        ret[i] = (uint8_t) (high << 4 | low);
    }
    return 0;
}

/* --- sets --- */

void backups_hashes_done(struct backups_hashes *s)
{
    mem_free(s->v);
    map_done(&s->by_hash);
}

static uint64_t key_of(const uint8_t hash[BACKUPS_HASH])
{
    uint64_t k;

    memcpy(&k, hash, sizeof k);
    return k;
}

int backups_hashes_add(struct backups_hashes *s, struct str hex, uint64_t size)
{
    struct backups_hash x = {.size = size};
    int r = backups_hash_parse(hex, x.hash);

    if (r < 0 || backups_hashes_have(s, hex, size))
        return r;
    r = array_push(s->v, s->n, s->cap, UINT32_MAX - 1, x);
    return r < 0 ? r : map_insert(&s->by_hash, key_of(x.hash), s->n - 1);
}

bool backups_hashes_have(const struct backups_hashes *s, struct str hex, uint64_t size)
{
    uint8_t hash[BACKUPS_HASH];

    if (backups_hash_parse(hex, hash) < 0)
        return false;
    for (struct map_pos p = map_find(&s->by_hash, key_of(hash)); p.index != MAP_NONE; p = map_next(&s->by_hash, p))
        if (memcmp(s->v[p.index].hash, hash, sizeof hash) == 0 && s->v[p.index].size == size)
            return true;
    return false;
}

static int add_listed(void *ctx, struct str name, uint64_t size)
{
    int r = backups_hashes_add(ctx, name, size);

    return r == -EINVAL ? 0 : r; /* not a file of ours */
}

int backups_hashes_list(struct backups_place *p, struct backups_hashes *s, struct err *e)
{
    return backups_place_list(p, "files", add_listed, s, e);
}
