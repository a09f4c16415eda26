/* SPDX-License-Identifier: Apache-2.0 */
/* Looks at the directory of a store (store_place.h). */
#include "store/store_place.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "store/store.h"

enum { PLACE_SIZE = 4096 };

bool store_place_exists(const char *place)
{
    const struct store_ops *engine = store_engine_of(str_from(place));
    char path[PLACE_SIZE];

    if (engine && !engine->in_dir)
        return true;
    return snprintf(path, sizeof path, "%s/" STORE_PLACE_MARK, place) < PLACE_SIZE && access(path, F_OK) == 0;
}

int store_place_rebuild(const char *dir, struct err *e)
{
    char from[PLACE_SIZE + 32], to[PLACE_SIZE + 64];
    int r;

    snprintf(to, sizeof to, "%s/lost", dir);
    r = fd_mkdir(AT_FDCWD, to, 0755);
    for (int i = 0; r == 0 && i < 2; i++) {
        snprintf(from, sizeof from, "%s/catalog.db%s", dir, i ? "-wal" : "");
        snprintf(to, sizeof to, "%s/lost/catalog-%lld.db%s", dir, (long long) (clock_wall() / NS_PER_S),
                 i ? "-wal" : "");
        if (access(from, F_OK) == 0)
            r = fd_rename(AT_FDCWD, from, AT_FDCWD, to);
    }
    return r < 0 ? err_set(e, r, "cannot rename the catalogue of '%s': %m", dir) : 0;
}
