/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wick uninstall [--purge]: stops the services and removes the files that `make install` installed, by the list in
 * PREFIX/lib/wick/manifest; configuration and data are kept unless --purge is given.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/child.h"
#include "base/fd.h"
#include "cli/command.h"
#include "conf/paths.h"
#include "conf/args.h"

enum { MANIFEST_MAX = 1 << 20 };

struct uninstall_options {
    bool purge, dry, help;
};

static const struct arg uninstall_args[] = {
    {0, "purge", ARG_FLAG, offsetof(struct uninstall_options, purge), NULL,
     "also delete the configuration and all stored data"},
    {'n', "dry-run", ARG_FLAG, offsetof(struct uninstall_options, dry), NULL, "only print what would be removed"},
    {'h', "help", ARG_FLAG, offsetof(struct uninstall_options, help), NULL, "show this help"},
    {0},
};

/* The PREFIX of this program, PREFIX/bin/wick. */
static int find_prefix(char ret[PATH_MAX], struct err *e)
{
    ssize_t n = readlink("/proc/self/exe", ret, PATH_MAX - 1);
    char *slash;

    if (n < 0)
        return err_set(e, -errno, "cannot find where wick is installed: %m");
    ret[n] = 0;
    for (int i = 0; i < 2; i++) {
        slash = strrchr(ret, '/');
        if (!slash)
            return err_set(e, -ENOENT, "cannot find where wick is installed");
        *slash = 0;
    }
    return 0;
}

static void stop_services(const struct uninstall_options *o)
{
    static const char *const argv[] = {"/bin/systemctl",     "disable", "--now", "wick.service",
                                       "wick-agent.service", NULL};
    _cleanup_(buf_done) struct buf out = BUF_INIT;

    if (access("/run/systemd/system", F_OK) < 0 || access(argv[0], X_OK) < 0 || geteuid() != 0)
        return;
    printf("systemctl disable --now wick wick-agent\n");
    if (!o->dry)
        child_output(argv, 1 << 16, &out, NULL); /* they may not have been enabled */
}

static int remove_path(const struct uninstall_options *o, const char *path, struct err *e)
{
    int r;

    printf("%s\n", path);
    if (o->dry)
        return 0;
    r = fd_unlink(AT_FDCWD, path);
    return r < 0 && r != -ENOENT ? err_set(e, r, "cannot remove '%s': %s", path, strerror(-r)) : 0;
}

/* Removes folders that belong to wick alone; those that are not empty are kept. */
static void remove_folders(const struct uninstall_options *o, const char *path)
{
    char folder[PATH_MAX + 256];
    char *slash;

    snprintf(folder, sizeof folder, "%s", path);
    slash = strrchr(folder, '/');
    if (!slash)
        return;
    *slash = 0;
    slash = strrchr(folder, '/');
    if (!o->dry && slash && strcmp(slash, "/wick") == 0)
        fd_rmdir(AT_FDCWD, folder);
}

static bool is_config(struct str relative)
{
    return str_starts(relative, STR("etc/"));
}

static int remove_installed(const struct uninstall_options *o, const char *prefix, struct err *e)
{
    _cleanup_(buf_done) struct buf list = BUF_INIT;
    char path[PATH_MAX + 256];
    struct str rest;
    int r;

    snprintf(path, sizeof path, "%s/lib/wick/manifest", prefix);
    r = fd_read_file(path, MANIFEST_MAX, &list, NULL);
    if (r < 0)
        return err_set(e, r, "no list of installed files (%s): nothing was removed", path);
    for (rest = buf_str(&list); r == 0 && rest.n;) {
        struct str line = str_trim(str_cut(&rest, '\n'));

        if (!line.n || line.n > 255 || str_starts(line, STR("/")) || str_find(line, STR("..")) >= 0)
            continue;
        snprintf(path, sizeof path, "%s/%.*s", prefix, STR_FMT(line));
        if (is_config(line) && !o->purge) {
            fprintf(stderr, "wick: kept %s; --purge removes it too\n", path);
            continue;
        }
        r = remove_path(o, path, e);
        if (r == 0)
            remove_folders(o, path);
    }
    return r;
}

/* --- data --- */

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void) st;
    (void) at;
    return kind == FTW_DP ? fd_rmdir(AT_FDCWD, path) : fd_unlink(AT_FDCWD, path);
}

static int remove_data(const struct uninstall_options *o, struct err *e)
{
    char dir[PATH_SIZE];
    int r = path_data_dir(dir, e);

    if (r < 0 || access(dir, F_OK) < 0)
        return 0;
    if (!o->purge) {
        fprintf(stderr, "wick: kept the data in %s; --purge removes it too\n", dir);
        return 0;
    }
    printf("%s and everything in it\n", dir);
    r = o->dry ? 0 : nftw(dir, remove_entry, 32, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    return r ? err_set(e, -EIO, "cannot remove everything in '%s'", dir) : 0;
}

static int uninstall_run(int argc, char **argv)
{
    struct uninstall_options o = {0};
    struct err e = {0};
    char prefix[PATH_MAX];
    int n, r = args_parse(uninstall_args, &o, argc - 1, argv + 1, &n, &e);

    if (o.help) {
        args_text(
            "usage: wick uninstall [--purge] [--dry-run]\n\nStops wick's services and removes what was installed; prints each "
            "file.\n\n",
            stdout);
        args_help(uninstall_args, stdout);
        return EXIT_DONE;
    }
    if (r == 0 && n)
        r = err_set(&e, -EINVAL, "unexpected argument '%s'", argv[1]);
    if (r < 0)
        return command_misused("uninstall", "%s", e.message);
    r = find_prefix(prefix, &e);
    if (r == 0) {
        stop_services(&o);
        r = remove_installed(&o, prefix, &e);
    }
    if (r == 0)
        r = remove_data(&o, &e);
    return command_end("uninstall", r, &e);
}

const struct command command_uninstall = {"uninstall", "remove wick; with --purge also its data", uninstall_run};
