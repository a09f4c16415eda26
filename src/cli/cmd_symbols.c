/* SPDX-License-Identifier: Apache-2.0 */
/* wick symbols upload|list|delete: manages the files from which a server reads names of native frames. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/compress.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/record.h"
#include "cli/command.h"
#include "client/ask.h"
#include "conf/args.h"
#include "elf/elf.h"
#include "elf/elf_id.h"
#include "net/http.h"

enum { PIECE = 8 << 20 };

struct symbols_options {
    struct ask_target target;
    const char *build_id;
    bool if_missing, json, help;
};

static const struct arg symbols_args[] = {
    {0, "server", ARG_STRING, offsetof(struct symbols_options, target.server), "URL",
     "server (default: $WICK_SERVER, else http://localhost:4040)"},
    {0, "token", ARG_STRING, offsetof(struct symbols_options, target.token), "TOKEN",
     "token for the server (default: $WICK_TOKEN)"},
    {0, "build-id", ARG_STRING, offsetof(struct symbols_options, build_id), "ID",
     "build id to upload as, instead of the file's own"},
    {0, "if-missing", ARG_FLAG, offsetof(struct symbols_options, if_missing), NULL,
     "upload only files that the server does not have"},
    {0, "json", ARG_FLAG, offsetof(struct symbols_options, json), NULL, "print JSON"},
    {'h', "help", ARG_FLAG, offsetof(struct symbols_options, help), NULL, "show this help"},
    {0},
};

static void symbols_help(void)
{
    args_text(
        "usage: wick symbols upload FILE...          (-: standard input, if it is a file)\n"
        "       wick symbols list\n"
        "       wick symbols delete BUILD-ID\n\n"
        "Uploads binaries or debug files to a server, for profiles that arrive without function names: of stripped programs, "
        "or from an agent. The server then symbolizes their frames, including those of older profiles.\n\n",
        stdout);
    args_help(symbols_args, stdout);
}

/* --- upload --- */

static int file_build_id(int fd, const char *path, char ret[ELF_ID_MAX], struct err *e)
{
    _cleanup_(elf_freep) struct elf_file *f = NULL;
    int r = elf_open_fd(fd, &f, e);

    if (r < 0)
        return err_prefix(e, r, "%s: ", path);
    if (!elf_gnu_build_id(f, ret) && !elf_go_build_id(f, ret))
        elf_htlhash(f, ret);
    return 0;
}

/* The upload of one file: what the server has of it. */
struct symbol_upload {
    char id[ELF_ID_MAX];
    uint64_t size, offset;
    bool complete;
};

static const struct record_field state_fields[] = {
    {"complete", RECORD_BOOL, offsetof(struct symbol_upload, complete)},
    {"offset", RECORD_COUNT, offsetof(struct symbol_upload, offset)},
    {0},
};

static int read_state(struct str text, struct symbol_upload *u, struct err *e)
{
    struct arena a;
    int r;

    arena_init(&a, 1 << 20);
    r = record_read(text, state_fields, RECORD_ANSWER, &a, u, NULL);
    arena_done(&a);
    return r < 0 ? err_set(e, -EPROTO, "the server's response cannot be parsed") : 0;
}

static int send_piece(const struct symbols_options *o, struct symbol_upload *u, struct str piece, struct err *e)
{
    _cleanup_(buf_done) struct buf path = BUF_INIT, packed = BUF_INIT, answer = BUF_INIT;
    struct ask_request q = {.method = "PUT", .encoding = "zstd", .expect = 409};
    uint64_t from = u->offset;
    int r = compress_deflate(COMPRESS_ZSTD, 1, piece.p, piece.n, &packed, e);

    buf_puts(&path, "/api/v1/symbols/");
    http_percent_encode(&path, str_from(u->id));
    buf_printf(&path, "?offset=%llu&size=%llu", (unsigned long long) u->offset, (unsigned long long) u->size);
    q.path = buf_cstr(&path);
    q.body = buf_str(&packed);
    if (r < 0 || !q.path)
        return r < 0 ? r : -ENOMEM;
    r = ask_send(&o->target, &q, &answer, NULL, e);
    if (r == 0)
        r = read_state(buf_str(&answer), u, e);
    if (r == 0 && u->offset == from && !u->complete && piece.n)
        r = err_set(e, -EIO, "the server did not accept the file");
    return r;
}

static int ask_state(const struct symbols_options *o, const char *id, bool *ret_complete, struct err *e)
{
    _cleanup_(buf_done) struct buf path = BUF_INIT, answer = BUF_INIT;
    struct symbol_upload u = {0};
    int r;

    buf_puts(&path, "/api/v1/symbols/");
    http_percent_encode(&path, str_from(id));
    if (!buf_cstr(&path))
        return -ENOMEM;
    r = ask_server(&o->target, path.p, &answer, e);
    if (r == 0)
        r = read_state(buf_str(&answer), &u, e);
    *ret_complete = u.complete;
    return r;
}

static int say_uploaded(const struct symbols_options *o, const char *path, const char *id, uint64_t size, struct err *e)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    bool first = true;

    if (!o->json) {
        buf_printf(&out, "%s  %s  %llu bytes\n", id, path, (unsigned long long) size);
        return fd_write_file("-", out.p, out.n, e);
    }
    buf_putc(&out, '{');
    json_put_key_text(&out, &first, "file", path);
    json_put_key_text(&out, &first, "buildId", id);
    json_put_key_u64(&out, &first, "bytes", size);
    buf_puts(&out, "}\n");
    return fd_write_file("-", out.p, out.n, e);
}

static int upload_file(const struct symbols_options *o, const char *path, struct err *e)
{
    /* "-": the file that the caller has opened, such as the agent, which may read files that this process may not. */
    _cleanup_(fd_closep) int fd = strcmp(path, "-") == 0 ? dup(STDIN_FILENO) : fd_open_regular(path);
    _cleanup_(mem_freep) char *piece = mem_alloc(PIECE);
    struct symbol_upload u = {0};
    struct stat st;
    int r;

    if (!piece)
        return -ENOMEM;
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_set(e, fd < -1 ? fd : -errno, "cannot open '%s': %m", path);
    if (!S_ISREG(st.st_mode))
        return err_set(e, -EINVAL, "'%s' is not a regular file", path);
    u.size = (uint64_t) st.st_size;
    r = file_build_id(fd, path, u.id, e);
    if (r < 0)
        return r;
    if (o->build_id)
        snprintf(u.id, sizeof u.id, "%s", o->build_id);
    if (o->if_missing)
        r = ask_state(o, u.id, &u.complete, e);
    if (r == 0 && u.complete)
        return 0;
    while (r == 0 && !u.complete) {
        size_t n = (size_t) MIN((uint64_t) PIECE, u.size - MIN(u.offset, u.size));

        r = fd_pread_all(fd, piece, n, (off_t) u.offset);
        if (r == 0)
            r = send_piece(o, &u, (struct str){piece, (uint32_t) n}, e);
    }
    return r < 0 ? r : say_uploaded(o, path, u.id, u.size, e);
}

static int symbols_upload(const void *options, int argc, char **argv, struct err *e)
{
    int r = 0;

    for (int i = 0; r == 0 && i < argc; i++)
        r = upload_file(options, argv[i], e);
    return r;
}

/* --- list, delete --- */

static int symbols_list(const void *options, int argc, char **argv, struct err *e)
{
    const struct symbols_options *o = options;
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    int r = ask_server(&o->target, "/api/v1/binaries", &out, e);

    return r < 0 ? r : fd_write_file("-", out.p, out.n, e);
}

static int symbols_delete(const void *options, int argc, char **argv, struct err *e)
{
    const struct symbols_options *o = options;
    _cleanup_(buf_done) struct buf path = BUF_INIT, out = BUF_INIT;
    struct ask_request q = {.method = "DELETE"};

    buf_puts(&path, "/api/v1/symbols/");
    http_percent_encode(&path, str_from(argv[0]));
    q.path = buf_cstr(&path);
    return q.path ? ask_send(&o->target, &q, &out, NULL, e) : -ENOMEM;
}

static int symbols_run(int argc, char **argv)
{
    static const struct command_verb verbs[] = {
        {"upload", "files", 1, INT_MAX, symbols_upload},
        {"list", "no arguments", 0, 0, symbols_list},
        {"delete", "one build id", 1, 1, symbols_delete},
        {0},
    };
    struct symbols_options o = {0};
    struct err e = {0};
    int n, r = args_parse(symbols_args, &o, argc - 1, argv + 1, &n, &e);

    if (r < 0)
        return command_misused("symbols", "%s", e.message);
    if (o.help) {
        symbols_help();
        return EXIT_DONE;
    }
    return command_verb("symbols", verbs, &o, n, argv + 1);
}

const struct command command_symbols = {"symbols", "upload, list and delete symbol files of a server", symbols_run};
