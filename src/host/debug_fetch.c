/* SPDX-License-Identifier: Apache-2.0 */
/* Downloads debug files into the cache of debuginfod's clients (debug_fetch.h). */
#include "host/debug_fetch.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/debug_file.h"
#include "agent/object.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/url.h"
#include "net/fetch.h"
#include "net/tls.h"

enum { FILE_BYTES_MAX = 512 << 20, URL_SIZE = 2048, MESSAGE_SIZE = 512 };
static const int64_t TIMEOUT_NS = 90 * NS_PER_S; /* of a file, as elfutils has it */

static int cache_folder(char ret[PATH_MAX])
{
    static const struct {
        const char *variable, *below;
    } places[] = {
        {"DEBUGINFOD_CACHE_PATH", ""}, {"XDG_CACHE_HOME", "/debuginfod_client"}, {"HOME", "/.cache/debuginfod_client"}};

    for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
        const char *value = getenv(places[i].variable);

        if (value && value[0] == '/')
            return snprintf(ret, PATH_MAX, "%s%s", value, places[i].below) < PATH_MAX ? 0 : -ENAMETOOLONG;
    }
    return -ENOENT;
}

void debug_fetch_use_cache(void)
{
    char folder[PATH_MAX];

    if (cache_folder(folder) == 0)
        debug_file_set_cache(folder);
}

static void say(const struct debug_fetch *f, const char *what, const struct object *o, const char *why)
{
    char line[MESSAGE_SIZE];

    snprintf(line, sizeof line, "%s %.200s%s%.200s", what, o->path, why ? ": " : "", why ? why : "");
    if (f->say)
        f->say(f->ctx, line);
}

/* URL/buildid/ID/debuginfo into the cache. 0; -ENOENT when the server does not have it. */
static int fetch_from(struct str url, const struct object *o, const char *folder, struct err *e)
{
    _cleanup_(fetch_result_done) struct fetch_result res = {0};
    char full[URL_SIZE], shown[URL_SHOWN], path[PATH_MAX], file[PATH_MAX];
    struct fetch_options q = {.url = full, .timeout_ns = TIMEOUT_NS, .max_answer = FILE_BYTES_MAX, .tls = &tls_openssl};
    int r;

    while (url.n && url.p[url.n - 1] == '/')
        url.n--;
    if (snprintf(full, sizeof full, "%.*s/buildid/%s/debuginfo", STR_FMT(url), o->gnu_id) >= URL_SIZE ||
        snprintf(path, sizeof path, "%s/%s", folder, o->gnu_id) >= PATH_MAX ||
        snprintf(file, sizeof file, "%s/debuginfo", path) >= PATH_MAX)
        return err_set(e, -ENAMETOOLONG, "the URL is too long");
    r = fetch_url(&q, &res, e);
    if (r == 0 && res.status == 404)
        return -ENOENT;
    if (r == 0 && res.status != 200)
        r = err_set(e, -EPROTO, "%.100s answers %d", url_redact(full, shown, sizeof shown), res.status);
    if (r == 0)
        r = fetch_decode(&res, FILE_BYTES_MAX, e);
    if (r == 0)
        r = fd_mkdir_all(path, 0700);
    if (r < 0)
        return r;
    return fd_write_file(file, res.body.p, res.body.n, e);
}

/* *dead has a bit for each server that did not answer: it is not waited for again. */
static bool fetch_one(const struct debug_fetch *f, const struct object *o, const char *folder, uint64_t *dead)
{
    struct str rest = str_from(f->urls);
    struct err e = {0};
    int last = -ENOENT;

    say(f, "fetching debug information of", o, NULL);
    for (unsigned i = 0; rest.n && i < 64; i++) {
        struct str url = str_trim(str_cut(&rest, ' '));
        int r = url.n && !(*dead & 1ull << i) ? fetch_from(url, o, folder, &e) : -ENOENT;

        if (r == 0)
            return true;
        if (r != -ENOENT && r != -EPROTO)
            *dead |= 1ull << i;
        last = r == -ENOENT ? last : r;
    }
    say(f, "no debug information of", o, last == -ENOENT ? "no debuginfod server has it" : err_message(&e, last));
    return false;
}

size_t debug_fetch_missing(const struct debug_fetch *f, struct objects *objects)
{
    char folder[PATH_MAX];
    size_t at = 0, n = 0;
    uint64_t dead = 0;
    struct object *o;

    if (!f->urls || !*f->urls || cache_folder(folder) < 0)
        return 0;
    while ((o = debug_file_next_missing(objects, &at)))
        n += o->gnu_id[0] && fetch_one(f, o, folder, &dead);
    return n;
}
