/* SPDX-License-Identifier: Apache-2.0 */
/* Files are replaced whole or not at all, with the mode and owner asked for, and through nobody's links. */
#include "base/fd.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "tap.h"

static char dir_path[64];
static int dir;

static struct str content(const char *name, struct buf *b)
{
    char path[128];

    b->n = 0;
    snprintf(path, sizeof path, "%s/%s", dir_path, name);
    fd_read_file(path, 1 << 20, b, NULL);
    return buf_str(b);
}

static int count_files(void)
{
    char command[128];
    FILE *f;
    int n = -1;

    snprintf(command, sizeof command, "ls -A %s | wc -l", dir_path);
    f = popen(command, "r");
    if (!f || fscanf(f, "%d", &n) != 1)
        tap_fail("cannot count files");
    if (f)
        pclose(f);
    return n;
}

static void test_replace(void)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    struct fd_owner secret = {0600, (uid_t) -1, (gid_t) -1}, open_to_all = {0666, (uid_t) -1, (gid_t) -1};
    struct stat st;
    mode_t old = umask(0);

    eq_int(fd_replace(dir, "file", &secret, "one", 3, NULL), 0);
    eq_str(content("file", &b), STR("one"));
    eq_int(fstatat(dir, "file", &st, 0), 0);
    eq_int(st.st_mode & 07777, 0600);
    umask(077);
    eq_int(fd_replace(dir, "file", &open_to_all, "second", 6, NULL), 0);
    eq_str(content("file", &b), STR("second"));
    eq_int(fstatat(dir, "file", &st, 0), 0);
    eq_int(st.st_mode & 07777, 0666); /* whatever the umask */
    eq_int(count_files(), 1);
    umask(old);
    if (geteuid() == 0) {
        eq_int(fd_replace(dir, "file", &(struct fd_owner){0640, 12, 34}, "third", 5, NULL), 0);
        eq_int(fstatat(dir, "file", &st, 0), 0);
        ok(st.st_uid == 12 && st.st_gid == 34 && (st.st_mode & 07777) == 0640);
    }
    fd_unlink(dir, "file");
}

/* The target is a link that somebody else put there: the link is replaced, what it points to is not written. */
static void test_replace_follows_no_link(void)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    struct fd_owner secret = {0600, (uid_t) -1, (gid_t) -1};
    struct stat st;

    eq_int(fd_replace(dir, "victim", &secret, "precious", 8, NULL), 0);
    eq_int(symlinkat("victim", dir, "file"), 0);
    eq_int(fd_replace(dir, "file", &secret, "token", 5, NULL), 0);
    eq_str(content("victim", &b), STR("precious"));
    eq_int(fstatat(dir, "file", &st, AT_SYMLINK_NOFOLLOW), 0);
    ok(S_ISREG(st.st_mode));
    fd_unlink(dir, "victim");
    fd_unlink(dir, "file");
}

static char seen[2][256];
static int n_opened, opened_flags;

static int record_open(int d, const char *path, int flags, mode_t mode)
{
    if (flags & O_CREAT) {
        snprintf(seen[n_opened % 2], sizeof seen[0], "%s", path);
        n_opened++;
        opened_flags = flags;
    }
    return fd_ops_system.open(d, path, flags, mode);
}

static void test_names_are_random(void)
{
    struct fd_ops ops = fd_ops_system;
    struct fd_owner secret = {0600, (uid_t) -1, (gid_t) -1};
    char path[128];

    ops.open = record_open;
    fd_ops = &ops;
    for (int i = 0; i < 2; i++)
        eq_int(fd_replace(dir, "file", &secret, "x", 1, NULL), 0);
    eq_int(n_opened, 2);
    ok(strcmp(seen[0], seen[1]) != 0);
    ok((opened_flags & (O_EXCL | O_NOFOLLOW)) == (O_EXCL | O_NOFOLLOW));
    snprintf(path, sizeof path, "%s/file", dir_path);
    for (int i = 0; i < 2; i++)
        eq_int(fd_write_file(path, "x", 1, NULL), 0);
    ok(strcmp(seen[0], seen[1]) != 0);
    ok((opened_flags & (O_EXCL | O_NOFOLLOW)) == (O_EXCL | O_NOFOLLOW));
    fd_ops = &fd_ops_system;
    fd_unlink(dir, "file");
}

static ssize_t no_write(int fd, const void *p, size_t n)
{
    errno = ENOSPC;
    return -1;
}

static void test_failure_leaves_the_old_file(void)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    struct fd_owner secret = {0600, (uid_t) -1, (gid_t) -1};
    struct fd_ops ops = fd_ops_system;
    struct err e = {0};

    eq_int(fd_replace(dir, "file", &secret, "old", 3, NULL), 0);
    ops.write = no_write;
    fd_ops = &ops;
    eq_int(fd_replace(dir, "file", &secret, "new", 3, &e), -ENOSPC);
    fd_ops = &fd_ops_system;
    eq_str(str_from(e.message), STR("cannot write 'file': No space left on device"));
    eq_str(content("file", &b), STR("old"));
    eq_int(count_files(), 1);
    fd_unlink(dir, "file");
}

int main(void)
{
    snprintf(dir_path, sizeof dir_path, "/tmp/wick-fd-XXXXXX");
    if (!mkdtemp(dir_path))
        return 1;
    dir = fd_open(AT_FDCWD, dir_path, O_PATH | O_DIRECTORY, 0);
    tap_run(test_replace);
    tap_run(test_replace_follows_no_link);
    tap_run(test_names_are_random);
    tap_run(test_failure_leaves_the_old_file);
    fd_close(dir);
    rmdir(dir_path);
    return tap_done();
}
