/* SPDX-License-Identifier: Apache-2.0 */
/*
 * debuginfod's protocol, so that gdb, perf and profilers get the files that were uploaded for symbolization:
 *
 *   GET /buildid/{build_id}/debuginfo     the file, if it has debug information
 *   GET /buildid/{build_id}/executable    the file, if it has code
 *   GET /buildid/{build_id}/source/PATH   not supported: 501
 *
 * A tenant gets its own files and those that were downloaded for all. Files are untrusted: what is in their headers only
 * decides which of the first two they are.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "server/api.h"
#include "server/front.h"
#include "server/name_source.h"

enum { SECTIONS_MAX = 65536 };

/* Whether a section of the ELF file has code that is in the file: in files with debug information only, it is not. */
static bool has_code(int fd)
{
    Elf64_Ehdr h;
    Elf64_Shdr s;

    if (fd_pread_all(fd, &h, sizeof h, 0) < 0 || memcmp(h.e_ident, ELFMAG, SELFMAG) != 0 ||
        h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_shentsize != sizeof s || h.e_shoff > INT64_MAX / 2)
        return false;
    for (uint64_t i = 0; i < h.e_shnum && i < SECTIONS_MAX; i++) {
        if (fd_pread_all(fd, &s, sizeof s, (off_t) (h.e_shoff + i * sizeof s)) < 0)
            return false;
        if (s.sh_type == SHT_PROGBITS && s.sh_flags & SHF_EXECINSTR)
            return true;
    }
    return false;
}

/* The file is sent from the disk as it is read: it may be larger than the memory of the server. */
static int send_file(struct call *c, bool code, struct err *e)
{
    struct name_source *names = front_options(c->front)->names;
    struct binary_store *files = names ? name_source_files(names) : NULL;
    struct binary_info info = {0};
    char path[BINARY_PATH_SIZE], size[32];
    _cleanup_(fd_closep) int fd = -1;
    struct stat st;

    if (!files)
        return err_set(e, -ENOSYS, "this server does not store symbols: set symbols.dir");
    if (!binary_id_ok(c->path_arg) || binary_store_find(files, c->who.tenant, c->path_arg, path, &info) < 0)
        return err_set(e, -ENOENT, "no file with the build id '%.*s'", STR_FMT(c->path_arg));
    if (!code && info.quality != SYMBOLS_LINES)
        return err_set(e, -ENOENT, "the file with the build id '%.*s' has no debug information", STR_FMT(c->path_arg));
    fd = fd_open_regular(path);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_set(e, fd < 0 ? fd : -errno, "the file with the build id '%.*s' cannot be read",
                       STR_FMT(c->path_arg));
    if (code && !has_code(fd))
        return err_set(e, -ENOENT, "the file with the build id '%.*s' has debug information only",
                       STR_FMT(c->path_arg));
    snprintf(size, sizeof size, "%llu", (unsigned long long) st.st_size);
    http_add_header(c->q, "x-debuginfod-size", str_from(size));
    http_answer_file(c->q, fd, (uint64_t) st.st_size);
    fd = -1; /* the request's now */
    c->content_type = "application/octet-stream";
    return 0;
}

static int run_debuginfo(struct call *c, struct err *e)
{
    return send_file(c, false, e);
}

static int run_executable(struct call *c, struct err *e)
{
    return send_file(c, true, e);
}

static int run_source(struct call *c, struct err *e)
{
    (void) c;
    return err_set(e, -ENOSYS, "source files are not served to debuggers");
}

static const struct route routes[] = {
    {"GET", "/buildid/{build_id}/debuginfo", AUTH_READ, false, run_debuginfo},
    {"GET", "/buildid/{build_id}/executable", AUTH_READ, false, run_executable},
    {"GET", "/buildid/{build_id}/source/*", AUTH_READ, false, run_source},
};

int api_mount_debuginfod(struct front *f)
{
    return front_mount(f, routes, ARRAY_SIZE(routes));
}
