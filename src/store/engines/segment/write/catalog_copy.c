/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the catalogue of a read-only store; see engine.h. SQLite writes to a database even when it only reads (it
 * replays its log), so it works on a private copy in a temporary directory, and the store's directory is not modified.
 * A catalogue that cannot be read is rebuilt from the segments, also in the copy.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fd.h"
#include "store/engines/segment/write/recovery.h"

static const char *const files[] = {"catalog.db", "catalog.db-wal"};

static int copy_files(struct engine *g, int to, struct err *e)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(files); i++) {
        struct stat st;

        if (fstatat(g->dir_fd, files[i], &st, 0) == 0)
            r = file_copy((struct file_place){g->dir_fd, files[i]}, (struct file_place){to, files[i]},
                          (uint64_t) st.st_size, true, e);
    }
    return r;
}

void engine_remove_catalog_copy(struct engine *g)
{
    char path[sizeof g->catalog_copy + 32];

    if (!g->catalog_copy[0])
        return;
    for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
        snprintf(path, sizeof path, "%s/%s", g->catalog_copy, files[i]);
        fd_unlink(AT_FDCWD, path);
    }
    fd_rmdir(AT_FDCWD, g->catalog_copy);
    g->catalog_copy[0] = 0;
}

int engine_open_catalog_copy(struct engine *g, struct err *e)
{
    _cleanup_(fd_closep) int to = -1;
    const char *tmp = getenv("TMPDIR");
    char path[sizeof g->catalog_copy + 32];
    bool is_new;
    int r;

    snprintf(g->catalog_copy, sizeof g->catalog_copy, "%s/wick-catalog-XXXXXX", tmp && tmp[0] == '/' ? tmp : "/tmp");
    if (!mkdtemp(g->catalog_copy)) {
        r = err_set(e, -errno, "cannot create a directory '%s' for a copy of the catalogue: %m", g->catalog_copy);
        g->catalog_copy[0] = 0;
        return r;
    }
    to = fd_open(AT_FDCWD, g->catalog_copy, O_RDONLY | O_DIRECTORY, 0);
    r = to < 0 ? err_set(e, to, "cannot open '%s': %m", g->catalog_copy) : copy_files(g, to, e);
    snprintf(path, sizeof path, "%s/%s", g->catalog_copy, files[0]);
    if (r == 0)
        r = catalog_open(path, &g->catalog, &is_new, e);
    if (r == -EBADMSG) {
        engine_damage(g, err_message(e, r));
        for (size_t i = 0; i < ARRAY_SIZE(files); i++)
            fd_unlink(to, files[i]);
        *e = (struct err){0};
        r = catalog_open(path, &g->catalog, &is_new, e);
    }
    if (r == 0 && is_new && faccessat(g->dir_fd, "1/seg", F_OK, 0) == 0)
        r = engine_rebuild_catalog(g, e);
    return r;
}
