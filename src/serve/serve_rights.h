/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The user and rights of the server while it parses requests. Started as root, it becomes an unprivileged user: the
 * configured one, else `wick` if that user exists, else a uid without an account (server/service_user.h). It keeps no
 * capability except, for a low port, CAP_NET_BIND_SERVICE, cannot gain any (no_new_privs), and can make only the system
 * calls of a daemon (base/confine.h). If a step fails, the server does not start.
 *
 * Its directories are given to that user. A directory that the user owns may lie below one that it cannot enter, such
 * as
 * /root: then it is reached through a descriptor that was opened before, see serve_rights_path().
 */
#ifndef SERVE_SERVE_RIGHTS_H
#define SERVE_SERVE_RIGHTS_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

enum { SERVE_DIRS_MAX = 32, SERVE_TRUSTED_MAX = 4 };

enum serve_dir_kind {
    SERVE_DIR_DATA,  /* wick's data directory: itself and the token file in it */
    SERVE_DIR_STORE, /* everything in it, including what an earlier server left there as root */
    SERVE_DIR_OTHER, /* named by the administrator: given to the user if it is empty */
    SERVE_DIR_FILE,  /* the directory of one file: it keeps its owner, the file is given to the user */
    SERVE_DIR_REACH, /* where files named by the administrator are read from: no owner changes */
};

struct serve_dir {
    const char *path; /* owned by the caller */
    enum serve_dir_kind kind;
    const char *file;     /* for SERVE_DIR_DATA and SERVE_DIR_FILE: the file's name */
    int fd;               /* set by serve_rights_drop(), kept open; -1 before */
    uint64_t given, left; /* files and directories whose owner was changed; those that were left unchanged but should
                           * have been */
};

struct serve_rights {
    const char *user; /* the user to become; NULL: as above; "": do not switch */
    bool low_port;    /* keep CAP_NET_BIND_SERVICE: a port below 1024 is configured */
    struct serve_dir dirs[SERVE_DIRS_MAX];
    unsigned n_dirs;
    uid_t trusted[SERVE_TRUSTED_MAX]; /* the user who started it, root, the user of sudo; set by serve_rights_drop() */
    unsigned n_trusted;
    char name[64];       /* of the user that it became; "" if it did not switch */
    const char *warning; /* what is not as it should be; NULL if there is nothing */
};

/* Called once, before any thread is started. */
int serve_rights_drop(struct serve_rights *s, struct err *e);
/* Logs what serve_rights_drop() did. */
void serve_rights_log(const struct serve_rights *s);
/* The path by which the server reaches one of the directories, or a file below one: the path itself if that works, else
 * one through the descriptor. Child processes of the server can use the same path. */
void serve_rights_path(const struct serve_rights *s, const char *path, char *ret, size_t size);

#endif
