/* SPDX-License-Identifier: Apache-2.0 */
/* Searches the usual directories for the debug file of an object, and has candidates checked for the same build. */
#include "agent/debug_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/reader/file_reader.h"
#include "base/fd.h"

static const char FOLDER[] = "/usr/lib/debug";
static char cache[PATH_MAX]; /* "": none */

void debug_file_set_cache(const char *folder)
{
    snprintf(cache, sizeof cache, "%s", folder);
}

/* Opens a candidate; negative when it does not exist, or is of another build. */
static int open_candidate(const struct object *o, const char *path, struct debug_file *ret)
{
    struct file_request q = {.op = FILE_MATCH, .crc = o->debug_crc};
    int fds[2] = {fd_open_regular(path), -1};
    struct file_answer a;
    int r;

    if (fds[0] < 0)
        return fds[0];
    snprintf(q.id, sizeof q.id, "%s", o->gnu_id);
    file_request_path(&q, path);
    r = file_reader_ask(o->reader, &q, fds, &a, NULL);
    if (r != 1) {
        fd_close(fds[0]);
        return r < 0 ? r : -ESTALE;
    }
    if (ret) {
        snprintf(ret->path, sizeof ret->path, "%s", path);
        ret->has_lines = a.facts.has_lines;
    }
    return fds[0];
}

static int open_by_id(const struct object *o, struct debug_file *ret)
{
    char path[PATH_MAX];

    if (strlen(o->gnu_id) < 4)
        return -ENOENT;
    snprintf(path, sizeof path, "%s/.build-id/%.2s/%s.debug", FOLDER, o->gnu_id, o->gnu_id + 2);
    return open_candidate(o, path, ret);
}

static int open_cached(const struct object *o, struct debug_file *ret)
{
    char path[PATH_MAX];

    if (!cache[0] || !o->gnu_id[0] || snprintf(path, sizeof path, "%s/%s/debuginfo", cache, o->gnu_id) >= PATH_MAX)
        return -ENOENT;
    return open_candidate(o, path, ret);
}

static int open_by_link(const struct object *o, struct debug_file *ret)
{
    const char *slash = strrchr(o->path, '/');
    int folder = slash ? (int) (slash - o->path) : 0, fd = -ENOENT;

    for (int i = 0; i < 3 && fd < 0 && o->debug_link; i++) {
        char path[PATH_MAX];

        if (snprintf(path, sizeof path, "%s%.*s/%s%s", i == 2 ? FOLDER : "", folder, o->path, i == 1 ? ".debug/" : "",
                     o->debug_link) < PATH_MAX)
            fd = open_candidate(o, path, ret);
    }
    return fd;
}

int debug_file_open(const struct object *o, struct debug_file *ret)
{
    int fd = o->kind == OBJECT_FILE ? open_by_id(o, ret) : -ENOENT;

    if (o->kind != OBJECT_FILE)
        return fd;
    if (fd < 0)
        fd = open_by_link(o, ret);
    return fd < 0 ? open_cached(o, ret) : fd;
}

struct object *debug_file_next_missing(struct objects *s, size_t *at)
{
    while (*at < objects_count(s)) {
        struct object *o = objects_at(s, (*at)++);
        int fd;

        if (o->kind != OBJECT_FILE || !o->sampled || o->is_go || o->has_own_names || o->has_own_lines)
            continue;
        fd = debug_file_open(o, NULL);
        if (fd < 0)
            return o;
        fd_close(fd);
    }
    return NULL;
}

int debug_file_best(const struct object *o, char ret_path[PATH_MAX])
{
    struct debug_file beside;
    int fd;

    if (o->kind != OBJECT_FILE)
        return -ENODATA;
    fd = o->has_own_lines ? -ENOENT : debug_file_open(o, &beside);
    if (fd >= 0) {
        fd_close(fd);
        memcpy(ret_path, beside.path, PATH_MAX);
        return 0;
    }
    object_reach(o, ret_path, PATH_MAX);
    return o->has_own_names || o->has_own_lines ? 0 : -ENODATA;
}

bool debug_file_next(struct objects *s, char ret_path[PATH_MAX])
{
    for (size_t i = 0; i < objects_count(s); i++) {
        struct object *o = objects_at(s, i);

        if (!o->sampled || o->offered)
            continue;
        o->offered = true;
        if (debug_file_best(o, ret_path) == 0)
            return true;
    }
    return false;
}
