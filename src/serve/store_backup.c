/* SPDX-License-Identifier: Apache-2.0 */
/* Copies a store and what is kept beside it; see store_backup.h. */
#include "serve/store_backup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/dir_tree.h"
#include "base/fd.h"
#include "span/span_index.h"
#include "store/store.h"

/* What the server itself keeps in the store's directory. Each of these files is replaced as a whole. */
static int copy_files(const struct store_backup *b, struct err *e)
{
    static const char *const names[] = {"binaries", "files", "alerts.json"};
    _cleanup_(fd_closep) int from = fd_open(AT_FDCWD, b->dir, O_RDONLY | O_DIRECTORY, 0);
    _cleanup_(fd_closep) int to = fd_open(AT_FDCWD, b->to, O_RDONLY | O_DIRECTORY, 0);
    int r = MIN(MIN(from, to), 0);

    if (r < 0)
        return err_set(e, r, "cannot open '%s': %m", from < 0 ? b->dir : b->to);
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(names); i++) {
        r = dir_copy((struct dir_place){from, names[i]}, (struct dir_place){to, names[i]}, e);
        r = r == -ENOENT ? 0 : r;
    }
    return r == 0 ? fd_sync(to) : r;
}

int store_backup_make(const struct store_backup *b, struct err *e)
{
    _cleanup_(buf_done) struct buf spans = BUF_INIT;
    int r;

    buf_printf(&spans, "%s/spans", b->to);
    if (!buf_cstr(&spans))
        return -ENOMEM;
    r = store_snapshot(b->store, b->to, e);
    if (r == 0 && b->spans)
        r = span_index_copy(b->spans, spans.p, e);
    return r == 0 ? copy_files(b, e) : r;
}
