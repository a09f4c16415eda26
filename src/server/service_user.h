/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The unprivileged user that a server becomes when root starts it: `wick` where there is such a user, else a uid that no
 * account has. `wick token` needs to know it too: what root writes for the server must be readable to that user.
 */
#ifndef SERVER_SERVICE_USER_H
#define SERVER_SERVICE_USER_H

#include <stdbool.h>
#include <sys/types.h>

/* Between the ranges that systemd gives to people and to dynamic users. */
enum { SERVICE_UID_FIRST = 60900, SERVICE_UIDS = 200 };

struct service_user {
    uid_t uid;
    gid_t gid;
    char name[64]; /* the number, when no account has it */
};

/* name NULL: the default one, always found: the owner of /var/lib/wick where that is a uid of the range, else the first of
 * them. -ENOENT when there is no user of that name. Not thread-safe (getpwnam). */
int service_user_find(const char *name, struct service_user *ret);
/* A uid of the range that no account has. */
bool service_user_is_own(uid_t uid);

#endif
