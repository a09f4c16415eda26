/* SPDX-License-Identifier: Apache-2.0 */
/* Where backups are: a directory, or a bucket of an object store (objects/s3_place.h). Both hold files by name; one that is
 * there is whole, and was synced. */
#ifndef SERVE_BACKUPS_PLACE_H
#define SERVE_BACKUPS_PLACE_H

#include "base/buf.h"
#include "base/err.h"

struct backups_place;

/* make: creates the directory, and keeps other programs from writing to it as long as it is open (-EBUSY). */
int backups_place_open(const char *place, bool make, struct backups_place **ret, struct err *e);
void backups_place_close(struct backups_place *p); /* accepts NULL */
DEFINE_CLEANUP(struct backups_place *, backups_place_close)

/* Names consist of letters, digits, '-', '_', '.' and one '/'. */
/* Writes the first size bytes of a file under a name. After a failure there is nothing, or the file of before. */
int backups_place_put(struct backups_place *p, const char *name, int fd, uint64_t size, struct err *e);
/* Reads a part of a file; -ENOENT, -EBADMSG if it is shorter. */
struct backups_part {
    const char *name;
    uint64_t off;
    uint32_t len;
};
int backups_place_read(struct backups_place *p, const struct backups_part *part, void *to, struct err *e);
/* Succeeds if there is no such file. */
int backups_place_remove(struct backups_place *p, const char *name, struct err *e);
/* Calls fn for each file of a folder, in any order, with the name without the folder. A folder that does not exist is empty. */
int backups_place_list(struct backups_place *p, const char *folder,
                       int (*fn)(void *ctx, struct str name, uint64_t size), void *ctx, struct err *e);

#endif
