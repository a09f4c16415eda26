/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Backups of a store, many in one place (backups_place.h), of which each is complete and needs only what is new:
 *
 *   files/SHA256        a file of the store, by what is in it
 *   backups/NAME.json   a backup: its files, and what the store has; written last
 *
 * NAME is the time of the backup and a random number. A place is for one store, and one program at a time may write to it. What is
 * read from a place is not trusted: paths of files stay below the directory that is restored, and every file must have the
 * size and the SHA-256 that the backup says.
 */
#ifndef SERVE_BACKUPS_H
#define SERVE_BACKUPS_H

#include "base/arena.h"
#include "base/err.h"
#include "base/record.h"

struct backups_place;

enum { BACKUPS_NAME_SIZE = 40 };

struct backups_file {
    struct str path; /* below the store; a directory ends with '/' */
    uint64_t size;
    struct str sha256; /* in hex; empty: a directory */
};

struct backups_one {
    uint64_t format;
    struct str name;
    int64_t time_ns; /* all that was acknowledged before is in it */
    struct str wick, host, store;
    uint64_t profiles, samples; /* of the store */
    int64_t newest_ns;          /* of the profiles; 0: there is none */
    uint64_t bytes;             /* of the files */
    struct backups_file *files;
    uint32_t n_files;
};

extern const struct record_field backups_fields[]; /* struct backups_one */
/* Reads the description of a backup; strings are in text or in the arena. Refuses what a later version wrote, and paths that lead
 * elsewhere. */
int backups_parse(struct str text, struct arena *a, struct backups_one *ret, struct err *e);

/* A name for something that is made at this time; names are in the order of time. */
int backups_make_name(int64_t time_ns, char ret[BACKUPS_NAME_SIZE]);

struct backups_counts {
    uint64_t files, bytes, new_files, new_bytes;
};

/* Adds a backup of what is in the directory dir. one: name, time, store and counts; the rest is set here. */
int backups_add(struct backups_place *p, const char *dir, struct backups_one *one, struct backups_counts *ret,
                struct err *e);
/* All backups, oldest first: struct backups_one, in the arena. */
int backups_list(struct backups_place *p, struct arena *a, struct record_list *ret, struct err *e);
/* The newest backup of that time or before, with its files; -ENOENT. */
int backups_find(struct backups_place *p, int64_t at, struct arena *a, struct backups_one *ret, struct err *e);
/* Writes the files into a directory, which must be empty or not exist; synced, and with FORMAT last, so that what is not complete is
 * not a store. After a failure the directory is empty. */
int backups_restore(struct backups_place *p, const struct backups_one *one, const char *dir, struct err *e);
/* Removes all but the newest backups, and the files that none of those needs. */
int backups_keep(struct backups_place *p, uint32_t keep, uint32_t *ret_removed, struct err *e);

#endif
