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

#include "base/mem.h"
#include "base/record.h"
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

static const char *const qualities[] = {"none", "names", "lines", NULL}, *const origins[] = {"upload", "debuginfod",
                                                                                             NULL};

static const struct record_field file_fields[] = {
    {"buildId", RECORD_CHARS, offsetof(struct binary_info, build_id)},
    {"origin", RECORD_WORD, offsetof(struct binary_info, origin), .words = origins},
    {"quality", RECORD_WORD, offsetof(struct binary_info, quality), 0, "what it tells of an address",
     .words = qualities},
    {"bytes", RECORD_COUNT, offsetof(struct binary_info, bytes)},
    {"time", RECORD_TIME, offsetof(struct binary_info, time_ns)},
    {0},
};

static const struct record_field state_fields[] = {
    {"buildId", RECORD_CHARS, offsetof(struct name_status, build_id)},
    {"state", RECORD_WORD, offsetof(struct name_status, state), .words = name_state_words},
    {"quality", RECORD_WORD, offsetof(struct name_status, quality), .words = qualities},
    {"asked", RECORD_COUNT, offsetof(struct name_status, asked), 0, "addresses that were looked up"},
    {"named", RECORD_COUNT, offsetof(struct name_status, named), 0, "those of them that have a name"},
    {"why", RECORD_CHARS, offsetof(struct name_status, why), 0, "why it is missing or failed", RECORD_SPARSE},
    {0},
};

struct binaries_answer {
    struct record_list files, states;
};

static const struct record_field list_fields[] = {
    {"files", RECORD_LIST, offsetof(struct binaries_answer, files), .fields = file_fields,
     .size = sizeof(struct binary_info)},
    {"buildIds", RECORD_LIST, offsetof(struct binaries_answer, states), .fields = state_fields,
     .size = sizeof(struct name_status)},
    {0},
};

static int run_list(struct call *c, struct err *e)
{
    _cleanup_(mem_freep) struct binary_info *v = NULL;
    _cleanup_(mem_freep) struct name_status *states = NULL;
    struct name_source *names = front_options(c->front)->names;
    struct binary_store *files = names ? name_source_files(names) : NULL;
    size_t n = 0, n_states = 0;
    int r = files ? binary_store_list(files, c->who.tenant, &v, &n) : 0;

    (void) e;
    if (r == 0 && names)
        r = name_source_list(names, c->who.tenant, &states, &n_states);
    if (r < 0)
        return r;
    record_put(&c->out, list_fields, &(struct binaries_answer){{v, (uint32_t) n}, {states, (uint32_t) n_states}});
    buf_putc(&c->out, '\n');
    return 0;
}

static const struct route routes[] = {
    {"PUT", "/api/v1/symbols/{build_id}", AUTH_WRITE, false, run_put},
    {"GET", "/api/v1/symbols/{build_id}", AUTH_WRITE, false, run_state},
    {"DELETE", "/api/v1/symbols/{build_id}", AUTH_ADMIN, false, run_delete},
    {"GET", "/api/v1/binaries", AUTH_READ, false, run_list, .answer = list_fields},
};

int api_mount_symbols(struct front *f)
{
    return front_mount(f, routes, ARRAY_SIZE(routes));
}
