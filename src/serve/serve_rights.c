/* SPDX-License-Identifier: Apache-2.0 */
/* See serve_rights.h. */
#include "serve/serve_rights.h"

#include <dirent.h>
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"

static bool is_empty(const char *dir)
{
    DIR *d = opendir(dir);
    bool empty = d != NULL;

    for (struct dirent *f; empty && (f = readdir(d));)
        empty = strcmp(f->d_name, ".") == 0 || strcmp(f->d_name, "..") == 0;
    if (d)
        closedir(d);
    return empty;
}

static int hand_over(const char *dir, const struct passwd *pw, struct err *e)
{
    struct stat st;
    int r = fd_mkdir_all(dir, 0700);

    if (r < 0)
        return err_set(e, r, "cannot make '%s': %s", dir, strerror(-r));
    if (stat(dir, &st) < 0)
        return err_set(e, -errno, "cannot look at '%s': %m", dir);
    if (st.st_uid == pw->pw_uid)
        return 0;
    if (!is_empty(dir))
        return err_set(e, -EACCES, "'%s' belongs to another user: chown -R %s '%s', or set user: \"\" to stay root",
                       dir, pw->pw_name, dir);
    if (chown(dir, pw->pw_uid, pw->pw_gid) < 0)
        return err_set(e, -errno, "cannot give '%s' to user %s: %m", dir, pw->pw_name);
    return 0;
}

static int become(const struct passwd *pw, struct err *e)
{
    if (setgroups(0, NULL) < 0 || setresgid(pw->pw_gid, pw->pw_gid, pw->pw_gid) < 0 ||
        setresuid(pw->pw_uid, pw->pw_uid, pw->pw_uid) < 0)
        return err_set(e, -errno, "cannot become user %s: %m", pw->pw_name);
    log_info("runs as user %s", pw->pw_name);
    return 0;
}

int serve_rights_drop(const char *user, bool named, const char *const *dirs, struct err *e)
{
    const struct passwd *pw = NULL;
    int r = 0;

    if (geteuid() == 0 && user && user[0]) {
        pw = getpwnam(user);
        if (!pw && named)
            return err_set(e, -ENOENT, "there is no user '%s': useradd --system %s, or set another user", user, user);
    }
    for (size_t i = 0; pw && r == 0 && dirs[i]; i++)
        r = hand_over(dirs[i], pw, e);
    if (r == 0 && pw)
        r = become(pw, e);
    if (r == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        r = err_set(e, -errno, "cannot give up new privileges: %m");
    return r;
}
