/* SPDX-License-Identifier: Apache-2.0 */
/* Determines the default directories (paths.h). */
#include "cli/paths.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

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
        return err_set(e, -ENOENT, "neither XDG_DATA_HOME nor HOME is set: say where with --store DIR");
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
