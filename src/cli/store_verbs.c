/* SPDX-License-Identifier: Apache-2.0 */
/* Opens what the options of `wick store` name; see store_verbs.h. */
#include "cli/store_verbs.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"
#include "serve/serve_dirs.h"
#include "span/span_index.h"
#include "store/store.h"
#include "store/store_place.h"

int store_verb_dir(const struct store_options *o, char ret[PATH_SIZE], struct err *e)
{
    if (!o->store)
        return path_store_dir(ret, e);
    if (snprintf(ret, PATH_SIZE, "%s", o->store) >= PATH_SIZE)
        return err_set(e, -ENAMETOOLONG, "--store: the path is too long");
    return 0;
}

int store_verb_check(const char *dir, struct err *e)
{
    return store_place_exists(dir) ? 0 : err_set(e, -ENOENT, "'%s' is not a store", dir);
}

int store_verb_open(const struct store_options *o, enum store_how how, struct store **ret, struct err *e)
{
    char dir[PATH_SIZE];
    struct store_config c = {.dir = dir,
                             .read_only = how == STORE_READ,
                             .max_late = -1,
                             .max_early = -1,
                             .keep = -1,
                             .keep_detail = -1,
                             .keep_bytes = UINT64_MAX,
                             .min_free = -1};
    int r = store_verb_dir(o, dir, e);

    if (r == 0 && how == STORE_WRITE)
        r = store_verb_check(dir, e);
    return r < 0 ? r : store_open_place(&c, ret, e);
}

int store_verb_spans(const struct store_options *o, bool read_only, struct span_index **ret, struct err *e)
{
    char dir[PATH_SIZE], path[PATH_SIZE + 8];
    struct span_index_config c = {.dir = path, .size = UINT64_MAX, .read_only = read_only, .min_free = -1};
    int r = store_verb_dir(o, dir, e);

    *ret = NULL;
    if (r < 0 || (store_engine_of(str_from(dir)) && !store_engine_of(str_from(dir))->in_dir))
        return r;
    snprintf(path, sizeof path, "%s/spans", dir);
    return access(path, F_OK) < 0 ? 0 : span_index_open(&c, ret, e);
}

int store_verb_give(const char *dir, const char *like, struct err *e)
{
    struct serve_dir d = {.path = dir, .kind = SERVE_DIR_STORE, .fd = -1};
    struct stat st;
    int r;

    if (geteuid() != 0 || fd_stat_path(like, &st) < 0 || st.st_uid == 0 || !store_place_exists(dir))
        return 0;
    r = serve_dir_open(&d, e);
    if (r == 0)
        r = serve_dir_hand_over(&d, st.st_uid, st.st_gid, "its owner", e);
    fd_close(d.fd);
    return r;
}
