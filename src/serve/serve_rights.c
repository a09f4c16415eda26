/* SPDX-License-Identifier: Apache-2.0 */
/* Drops the privileges of root: chooses the user, changes the owner of directories (serve_dirs.c), and confines the
 * process. See serve_rights.h. */
#include "serve/serve_rights.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/confine.h"
#include "base/fd.h"
#include "base/log.h"
#include "host/agent_rights.h"
#include "serve/serve_dirs.h"
#include "server/service_user.h"

/* --- trusted users --- */

static void trust(struct serve_rights *s, uid_t uid)
{
    for (unsigned i = 0; i < s->n_trusted; i++)
        if (s->trusted[i] == uid)
            return;
    if (s->n_trusted < SERVE_TRUSTED_MAX)
        s->trusted[s->n_trusted++] = uid;
}

static void find_trusted(struct serve_rights *s)
{
    const char *sudo = getenv("SUDO_UID");
    uint64_t uid;

    trust(s, getuid());
    trust(s, 0);
    trust(s, agent_rights_uid()); /* uploads symbol files; it can read every process anyway */
    if (getuid() == 0 && sudo && str_to_u64(str_from(sudo), 10, &uid) >= 0 && uid < UINT32_MAX)
        trust(s, (uid_t) uid);
}

/* --- the user to switch to --- */

/* True if the user namespace maps this uid: a rootless container may have root only. */
static bool is_mapped(uid_t uid)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;

    if (fd_read_file("/proc/self/uid_map", 1 << 16, &text, NULL) < 0)
        return true;
    for (struct str rest = buf_str(&text); rest.n;) {
        struct str line = str_cut(&rest, '\n');
        char copy[128];
        unsigned long first, outside, n;

        snprintf(copy, sizeof copy, "%.*s", STR_FMT(line));
        if (sscanf(copy, "%lu %lu %lu", &first, &outside, &n) == 3 && uid >= first && uid - first < n)
            return true;
    }
    return false;
}

static bool may_change_user(void)
{
    uint64_t have = 0;

    return confine_caps_get(&have) == 0 && have & CONFINE_CAP(CAP_SETUID) && have & CONFINE_CAP(CAP_SETGID);
}

/* The directory of a file that the administrator named keeps its permissions, even if the user cannot enter it: report
 * that before the server starts. */
static int check_files(const struct serve_rights *s, struct err *e)
{
    for (unsigned i = 0; i < s->n_dirs; i++) {
        const struct serve_dir *d = &s->dirs[i];

        if (d->kind == SERVE_DIR_FILE && faccessat(d->fd, ".", X_OK, AT_EACCESS) < 0)
            return err_set(e, -errno, "user %s cannot open '%s/%s': run chmod o+x '%s', or move the file", s->name,
                           d->path, d->file, d->path);
    }
    return 0;
}

static int become(struct serve_rights *s, uint64_t keep, struct err *e)
{
    struct service_user t;
    int r = service_user_find(s->user, &t);

    if (r < 0)
        return err_set(e, r, "user: no user '%s'; create it with: useradd --system %s", s->user, s->user);
    if (t.uid == 0)
        return 0;
    if (!s->user && (!may_change_user() || !is_mapped(t.uid))) {
        s->warning = "cannot become an unprivileged user in this container: running as uid 0 without capabilities";
        return 0;
    }
    for (unsigned i = 0; r == 0 && i < s->n_dirs; i++)
        r = serve_dir_hand_over(&s->dirs[i], t.uid, t.gid, t.name, e);
    if (r < 0)
        return r;
    r = confine_become(t.uid, t.gid, keep);
    if (r < 0)
        return err_set(e, r, "cannot become user %s: %s", t.name, strerror(-r));
    memcpy(s->name, t.name, sizeof s->name);
    return check_files(s, e);
}

/* The descriptors stay open on purpose, in child processes too: serve_rights_path() refers to them. */
static int open_dirs(struct serve_rights *s, struct err *e)
{
    for (unsigned i = 0; i < s->n_dirs; i++) {
        int r = serve_dir_open(&s->dirs[i], e);

        if (r < 0)
            return r;
        if (s->dirs[i].fd >= 0)
            fcntl(s->dirs[i].fd, F_SETFD, 0);
    }
    return 0;
}

int serve_rights_drop(struct serve_rights *s, struct err *e)
{
    uint64_t keep = s->low_port ? CONFINE_CAP(CAP_NET_BIND_SERVICE) : 0;
    bool stay = s->user && !s->user[0];
    int r;

    find_trusted(s);
    umask(077);
    r = open_dirs(s, e);
    if (r == 0 && geteuid() == 0 && !stay)
        r = become(s, keep, e);
    if (r < 0)
        return r;
    if (geteuid() == 0 && stay)
        s->warning = "running as root with all privileges, because user: \"\" is set";
    else
        r = confine_caps(keep);
    if (r < 0)
        return err_set(e, r, "cannot drop capabilities: %s", strerror(-r));
    r = confine_calls(confine_daemon, confine_daemon_n, NULL, 0);
    if (r < 0)
        return err_set(e, r, "cannot install the system call filter: %s", strerror(-r));
    return 0;
}

static bool is_reached(const struct serve_dir *d)
{
    struct stat here, there;

    return stat(d->path, &here) == 0 && fstat(d->fd, &there) == 0 && here.st_dev == there.st_dev &&
           here.st_ino == there.st_ino;
}

void serve_rights_path(const struct serve_rights *s, const char *path, char *ret, size_t size)
{
    snprintf(ret, size, "%s", path);
    for (unsigned i = 0; i < s->n_dirs; i++) {
        const struct serve_dir *d = &s->dirs[i];
        size_t n = strlen(d->path);

        if (d->fd < 0 || strncmp(path, d->path, n) != 0 || (path[n] && path[n] != '/') || is_reached(d))
            continue;
        snprintf(ret, size, "/proc/self/fd/%d%s", d->fd, path + n);
    }
}

void serve_rights_log(const struct serve_rights *s)
{
    if (s->warning)
        log_warn("%s", s->warning);
    if (s->name[0])
        log_info("running as user %s", s->name);
    for (unsigned i = 0; i < s->n_dirs; i++) {
        const struct serve_dir *d = &s->dirs[i];

        if (d->given > 1) /* 1 means only the directory itself, for example one that was just created */
            log_info("'%s': changed the owner of %llu files and directories to user %s", d->path,
                     (unsigned long long) d->given, s->name);
        if (d->left)
            log_warn("'%s': kept the owner of %llu files that are not regular files or have several links", d->path,
                     (unsigned long long) d->left);
    }
}
