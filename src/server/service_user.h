/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The unprivileged user that a server switches to when root starts it: `wick` if that user exists, else a uid without
 * an account. `wick token` needs it too: what root writes for the server must be readable by that user.
 */
#ifndef SERVER_SERVICE_USER_H
#define SERVER_SERVICE_USER_H

#include <stdbool.h>
#include <sys/types.h>

/* Between the ranges that systemd uses for regular users and for dynamic users. */
enum { SERVICE_UID_FIRST = 60900, SERVICE_UIDS = 200 };

struct service_user {
    uid_t uid;
    gid_t gid;
    char name[64]; /* the number, if no account has it */
};

/* name NULL selects the default user, which is always found: the owner of /var/lib/wick if that is a uid of the range,
 * else the first free one. -ENOENT if no user has that name. Not thread-safe (getpwnam). */
int service_user_find(const char *name, struct service_user *ret);
/* True for a uid of the range that has no account. */
bool service_user_is_own(uid_t uid);

#endif
