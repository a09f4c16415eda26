/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the package that a file belongs to, in dpkg's lists, and the name of its debug package (name_hint.h). */
#include "host/name_hint.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"

enum { LIST_MAX = 64 << 20, OS_MAX = 1 << 16, PACKAGE_SIZE = 256 };

/* ID of etc/os-release. */
static void read_system(const char *root, char *ret, size_t size)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    char path[PATH_MAX];
    struct str rest;

    *ret = 0;
    snprintf(path, sizeof path, "%s/etc/os-release", root);
    if (fd_read_file(path, OS_MAX, &b, NULL) < 0)
        return;
    for (rest = buf_str(&b); rest.n;) {
        struct str line = str_cut(&rest, '\n'), key = str_cut(&line, '=');

        if (line.n >= 2 && line.p[0] == '"')
            line = str_slice(line, 1, line.n - 1);
        if (str_is(key, "ID"))
            snprintf(ret, size, "%.*s", STR_FMT(line));
    }
}

static const char *server_of(const char *system)
{
    static const char *const servers[][2] = {{"debian", "https://debuginfod.debian.net"},
                                             {"ubuntu", "https://debuginfod.ubuntu.com"},
                                             {"fedora", "https://debuginfod.fedoraproject.org"},
                                             {"centos", "https://debuginfod.centos.org"},
                                             {"arch", "https://debuginfod.archlinux.org"},
                                             {"opensuse-leap", "https://debuginfod.opensuse.org"},
                                             {"opensuse-tumbleweed", "https://debuginfod.opensuse.org"}};

    for (size_t i = 0; i < ARRAY_SIZE(servers); i++)
        if (strcmp(system, servers[i][0]) == 0)
            return servers[i][1];
    return "https://debuginfod.elfutils.org";
}

static bool lists(const char *list, const char *path)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    struct str rest;

    if (fd_read_file(list, LIST_MAX, &b, NULL) < 0)
        return false;
    for (rest = buf_str(&b); rest.n;)
        if (str_is(str_cut(&rest, '\n'), path))
            return true;
    return false;
}

/* The package whose list has the path; with a merged /usr, lists may have it without /usr. */
static bool find_package(const char *root, const char *path, char *ret, size_t size)
{
    const char *bare = strncmp(path, "/usr/", 5) == 0 ? path + 4 : NULL;
    char folder[PATH_MAX / 2], list[PATH_MAX];
    struct dirent *d;
    bool found = false;
    DIR *dir;

    snprintf(folder, sizeof folder, "%s/var/lib/dpkg/info", root);
    dir = opendir(folder);
    while (dir && !found && (d = readdir(dir))) {
        if (!str_ends(str_from(d->d_name), STR(".list")))
            continue;
        snprintf(list, sizeof list, "%s/%s", folder, d->d_name);
        found = lists(list, path) || (bare && lists(list, bare));
        if (found)
            snprintf(ret, size, "%.*s", (int) strcspn(d->d_name, ":"), d->d_name);
    }
    if (dir)
        closedir(dir);
    if (found && str_ends(str_from(ret), STR(".list")))
        ret[strlen(ret) - 5] = 0;
    return found;
}

void name_hint(const char *root, const char *path, struct buf *out)
{
    char system[64], package[PACKAGE_SIZE], file[PATH_MAX];

    root = strcmp(root, "/") == 0 ? "" : root;
    read_system(root, system, sizeof system);
    snprintf(file, sizeof file, "%s/var/lib/dpkg/info", root);
    if (access(file, F_OK) == 0) {
        if (!find_package(root, path, package, sizeof package)) {
            buf_printf(out, "it belongs to no package: build it with -g, and do not strip it");
            return;
        }
        buf_printf(out, "install %s%s", package, strcmp(package, "libc6") == 0 ? "-dbg" : "-dbgsym");
    } else if (strcmp(system, "fedora") == 0 || strcmp(system, "centos") == 0 || strcmp(system, "rhel") == 0) {
        buf_printf(out, "run 'dnf debuginfo-install %s'", path);
    } else {
        buf_printf(out, "install its debug symbols");
    }
    buf_printf(out, ", or add --debuginfod %s", server_of(system));
}
