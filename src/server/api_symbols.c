/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/v1/symbols, /api/v1/binaries: files that names are read from, and the status of symbolization.
 *
 *   PUT    /api/v1/symbols/{build_id}[?offset=N&size=N]   the file, whole or in pieces; checked after the last piece
 *   GET    /api/v1/symbols/{build_id}                     whether the file is present, so that a client can skip it
 *   DELETE /api/v1/symbols/{build_id}
 *   GET    /api/v1/binaries                               files, and the state of every build id that was looked up
 */
#include <errno.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "net/encoding.h"
#include "server/api.h"
#include "server/front.h"
#include "server/name_source.h"

enum { PIECE_MAX = 256 << 20 }; /* one request, decompressed; larger files are sent in pieces */

static int files_of(struct call *c, struct name_source **ret_names, struct binary_store **ret, struct err *e)
{
    *ret_names = front_options(c->front)->names;
    *ret = *ret_names ? name_source_files(*ret_names) : NULL;
    if (!*ret)
        return err_set(e, -ENOSYS, "this server does not store symbols: set symbols.dir");
    if (!binary_id_ok(c->path_arg))
        return err_set(e, -EINVAL, "'%.*s' is not a build id", STR_FMT(c->path_arg));
    return 0;
}

static void put_state(struct call *c, bool complete, uint64_t have)
{
    buf_printf(&c->out, "{\"complete\":%s,\"offset\":%llu}\n", complete ? "true" : "false", (unsigned long long) have);
}

/* The file is complete. It is kept only if the symbolizer can read it. */
static int finish_upload(struct call *c, struct name_source *names, struct binary_store *files, const char *path,
                         struct err *e)
{
    int quality = name_source_check(names, path, c->path_arg, e), r;

    if (quality < 0) {
        binary_store_drop(files, path);
        return quality;
    }
    r = binary_store_accept(files, c->who.tenant, c->path_arg, path, (enum symbol_quality) quality, e);
    if (r == 0)
        name_source_changed(names, c->who.tenant, c->path_arg);
    return r;
}

static int run_put(struct call *c, struct err *e)
{
    _cleanup_(buf_done) struct buf inflated = BUF_INIT;
    struct name_source *names;
    struct binary_store *files;
    struct binary_piece piece;
    struct str body;
    uint64_t offset = 0, size = 0, have = 0;
    char path[BINARY_PATH_SIZE];
    int r = files_of(c, &names, &files, e);

    if (r == 0)
        r = http_decode_body(c->q, PIECE_MAX, &inflated, &body, e);
    if (r == 0)
        r = call_param_u64(c, "offset", &offset, e);
    if (r == 0)
        r = call_param_u64(c, "size", &size, e);
    if (r < 0)
        return r;
    if (!size)
        size = offset + body.n;
    piece = (struct binary_piece){c->who.tenant, c->path_arg, offset, size, body};
    r = binary_store_write(files, &piece, &have, path, e);
    if (r == -ESTALE) {
        c->q->status = 409;
        put_state(c, false, have);
        return 0;
    }
    if (r == 1)
        r = finish_upload(c, names, files, path, e);
    if (r < 0)
        return r;
    put_state(c, have == size, have);
    return 0;
}

static int run_state(struct call *c, struct err *e)
{
    struct binary_info info = {0};
    struct name_source *names;
    struct binary_store *files;
    char path[BINARY_PATH_SIZE];
    int r = files_of(c, &names, &files, e);

    if (r < 0)
        return r;
    r = binary_store_find(files, c->who.tenant, c->path_arg, path, &info);
    put_state(c, r == 0, info.bytes);
    return 0;
}

static int run_delete(struct call *c, struct err *e)
{
    struct name_source *names;
    struct binary_store *files;
    int r = files_of(c, &names, &files, e);

    if (r == 0)
        r = binary_store_delete(files, c->who.tenant, c->path_arg, e);
    if (r < 0)
        return r;
    name_source_changed(names, c->who.tenant, c->path_arg);
    buf_puts(&c->out, "{\"deleted\":true}\n");
    return 0;
}

static const char *quality_word(enum symbol_quality q)
{
    return q == SYMBOLS_LINES ? "lines" : q == SYMBOLS_NAMES ? "names" : "none";
}

static int put_files(struct call *c, struct binary_store *files)
{
    _cleanup_(mem_freep) struct binary_info *v = NULL;
    struct buf *out = &c->out;
    bool outer = true;
    size_t n = 0;
    int r = files ? binary_store_list(files, c->who.tenant, &v, &n) : 0;

    buf_puts(out, "{\"files\":[");
    for (size_t i = 0; r == 0 && i < n; i++) {
        bool first = true;

        json_sep(out, &outer);
        buf_putc(out, '{');
        json_put_key_text(out, &first, "buildId", v[i].build_id);
        json_put_key_text(out, &first, "origin", v[i].origin == BINARY_FETCHED ? "debuginfod" : "upload");
        json_put_key_text(out, &first, "quality", quality_word(v[i].quality));
        json_put_key_u64(out, &first, "bytes", v[i].bytes);
        json_put_key(out, &first, "time");
        buf_putc(out, '"');
        clock_format(out, v[i].time_ns);
        buf_puts(out, "\"}");
    }
    return r;
}

static int put_states(struct call *c, struct name_source *names)
{
    _cleanup_(mem_freep) struct name_status *v = NULL;
    struct buf *out = &c->out;
    bool outer = true;
    size_t n = 0;
    int r = names ? name_source_list(names, c->who.tenant, &v, &n) : 0;

    buf_puts(out, "],\"buildIds\":[");
    for (size_t i = 0; r == 0 && i < n; i++) {
        bool first = true;

        json_sep(out, &outer);
        buf_putc(out, '{');
        json_put_key_text(out, &first, "buildId", v[i].build_id);
        json_put_key_text(out, &first, "state", name_state_word(v[i].state));
        json_put_key_text(out, &first, "quality", quality_word(v[i].quality));
        json_put_key_u64(out, &first, "asked", v[i].asked);
        json_put_key_u64(out, &first, "named", v[i].named);
        if (v[i].why[0])
            json_put_key_text(out, &first, "why", v[i].why);
        buf_putc(out, '}');
    }
    buf_puts(out, "]}\n");
    return r;
}

static int run_list(struct call *c, struct err *e)
{
    struct name_source *names = front_options(c->front)->names;
    int r = put_files(c, names ? name_source_files(names) : NULL);

    (void) e;
    return r < 0 ? r : put_states(c, names);
}

static const struct route routes[] = {
    {"PUT", "/api/v1/symbols/{build_id}", AUTH_WRITE, false, run_put},
    {"GET", "/api/v1/symbols/{build_id}", AUTH_WRITE, false, run_state},
    {"DELETE", "/api/v1/symbols/{build_id}", AUTH_ADMIN, false, run_delete},
    {"GET", "/api/v1/binaries", AUTH_READ, false, run_list},
};

int api_mount_symbols(struct front *f)
{
    return front_mount(f, routes, ARRAY_SIZE(routes));
}
