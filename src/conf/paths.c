/* SPDX-License-Identifier: Apache-2.0 */
/* Determines the default directories, and checks the files that a user names (paths.h). */
#include "conf/paths.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

int path_data_dir(char ret[PATH_SIZE], struct err *e)
{
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    int n;

    if (geteuid() == 0)
        n = snprintf(ret, PATH_SIZE, "/var/lib/wick");
    else if (data && data[0] == '/')
        n = snprintf(ret, PATH_SIZE, "%s/wick", data);
    else if (home && home[0] == '/')
        n = snprintf(ret, PATH_SIZE, "%s/.local/share/wick", home);
    else
        return err_set(e, -ENOENT, "neither XDG_DATA_HOME nor HOME is set; name a directory with --store DIR");
    return n < PATH_SIZE ? 0 : err_set(e, -ENAMETOOLONG, "the path of the data directory is too long");
}

int path_store_dir(char ret[PATH_SIZE], struct err *e)
{
    int r = path_data_dir(ret, e);
    size_t n;

    if (r < 0)
        return r;
    for (n = 0; ret[n]; n++)
        ;
    if (snprintf(ret + n, PATH_SIZE - n, "/store") >= (int) (PATH_SIZE - n))
        return err_set(e, -ENAMETOOLONG, "the path of the store is too long");
    return 0;
}

int path_check_output(const char *option, const char *path, struct err *e)
{
    struct stat st;
    int fd;

    if (strcmp(path, "-") == 0)
        return 0;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return err_set(e, -EISDIR, "%s %s is a directory: name a file in it", option, path);
    if (stat(path, &st) == 0)
        return access(path, W_OK) < 0 ? err_set(e, -errno, "%s %s: %m", option, path) : 0;
    fd = fd_open(AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL, 0644);
    if (fd < 0)
        return err_set(e, fd, "%s %s: %s", option, path, strerror(-fd));
    fd_close(fd);
    fd_unlink(AT_FDCWD, path);
    return 0;
}
