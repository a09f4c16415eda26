/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 of files of backups, and sets of them. */
#ifndef SERVE_BACKUPS_HASH_H
#define SERVE_BACKUPS_HASH_H

#include "base/err.h"
#include "base/map.h"
#include "base/sha256.h"
#include "base/str.h"

struct backups_place;

enum { BACKUPS_HASH = SHA256_SIZE, BACKUPS_HEX = 2 * SHA256_SIZE };

/* Reads a file from its beginning to its end. */
int backups_hash_file(int fd, uint64_t *ret_size, char ret[BACKUPS_HEX + 1]);
/* Lower case alone; -EINVAL. */
int backups_hash_parse(struct str hex, uint8_t ret[BACKUPS_HASH]);

/* A set of files by SHA-256 and size. */
struct backups_hashes {
    struct backups_hash {
        uint8_t hash[BACKUPS_HASH];
        uint64_t size;
    } * v;
    uint32_t n, cap;
    struct map by_hash;
};

void backups_hashes_done(struct backups_hashes *s);
int backups_hashes_add(struct backups_hashes *s, struct str hex, uint64_t size);
bool backups_hashes_have(const struct backups_hashes *s, struct str hex, uint64_t size);
/* Adds the files that are in a place. */
int backups_hashes_list(struct backups_place *p, struct backups_hashes *s, struct err *e);

#endif
