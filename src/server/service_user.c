/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the unprivileged user that the server runs as. See service_user.h. */
#include "server/service_user.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <sys/stat.h>

bool service_user_is_own(uid_t uid)
{
    return uid >= SERVICE_UID_FIRST && uid < SERVICE_UID_FIRST + SERVICE_UIDS && !getpwuid(uid);
}

static uid_t own_uid(void)
{
    struct stat st;

    if (lstat("/var/lib/wick", &st) == 0 && service_user_is_own(st.st_uid))
        return st.st_uid;
    for (uid_t uid = SERVICE_UID_FIRST; uid < SERVICE_UID_FIRST + SERVICE_UIDS; uid++)
        if (service_user_is_own(uid))
            return uid;
    return 65534; /* the user "nobody": every uid of the range has an account */
}

int service_user_find(const char *name, struct service_user *ret)
{
    const struct passwd *pw = getpwnam(name ? name : "wick");

    if (!pw && name)
        return -ENOENT;
    if (pw) {
        *ret = (struct service_user){.uid = pw->pw_uid, .gid = pw->pw_gid};
        snprintf(ret->name, sizeof ret->name, "%s", pw->pw_name);
        return 0;
    }
    *ret = (struct service_user){.uid = own_uid()};
    ret->gid = (gid_t) ret->uid;
    snprintf(ret->name, sizeof ret->name, "%u", ret->uid);
    return 0;
}
