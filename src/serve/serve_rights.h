/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who the server is while it parses requests. Started as root it becomes an unprivileged user: the one that is configured,
 * else `wick` where there is such a user, else a uid that no account has (server/service_user.h). It keeps no capability, cannot gain any (no_new_privs), and
 * can make only the system calls of a daemon (base/confine.h). Every step fails closed.
 *
 * Its directories are handed over to that user. A directory that the user owns may lie below one that it cannot enter, as
 * /root: then it is reached by a descriptor that was opened before, see serve_rights_path().
 */
#ifndef SERVE_SERVE_RIGHTS_H
#define SERVE_SERVE_RIGHTS_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

enum { SERVE_DIRS_MAX = 32, SERVE_TRUSTED_MAX = 3 };

enum serve_dir_kind {
    SERVE_DIR_DATA,  /* wick's data directory: itself and the token file in it */
    SERVE_DIR_STORE, /* all that is in it, also what an earlier server left there as root */
    SERVE_DIR_OTHER, /* named by the administrator: handed over while it is empty */
    SERVE_DIR_FILE,  /* the directory of one file: it stays whose it is, the file is handed over */
    SERVE_DIR_REACH, /* where files are read that the administrator named: nothing is handed over */
};

struct serve_dir {
    const char *path; /* the caller's */
    enum serve_dir_kind kind;
    const char *file;     /* of SERVE_DIR_DATA and SERVE_DIR_FILE: its name */
    int fd;               /* set by serve_rights_drop(), kept open; -1 before */
    uint64_t given, left; /* files and directories that got a new owner; that should have and were left as they are */
};

struct serve_rights {
    const char *user; /* whom to be; NULL: as above; "": stay who it is */
    bool low_port;    /* keep CAP_NET_BIND_SERVICE: a port below 1024 is configured */
    struct serve_dir dirs[SERVE_DIRS_MAX];
    unsigned n_dirs;
    uid_t trusted[SERVE_TRUSTED_MAX]; /* who started it: its user, root, the user of sudo; set by serve_rights_drop() */
    unsigned n_trusted;
    char name[64];       /* of the user that it became; "" when it stayed */
    const char *warning; /* what is not as it should be, NULL: nothing */
};

/* Called once, before any thread runs. */
int serve_rights_drop(struct serve_rights *s, struct err *e);
/* Logs what serve_rights_drop() did. */
void serve_rights_log(const struct serve_rights *s);
/* How the server reaches a path that is one of the directories or below one: the path itself where that works, else by way
 * of the descriptor. Children that the server starts reach it by the same path. */
void serve_rights_path(const struct serve_rights *s, const char *path, char *ret, size_t size);

#endif
