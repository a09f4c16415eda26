/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wick symbolize: the process that reads binaries for others (symbol/symbol_process.h). Without arguments it uses their
 * protocol on standard input, which must be a socket; with a binary and addresses it prints their names and lines as
 * text.
 */
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/reader/file_reader.h"
#include "base/fd.h"
#include "base/mem.h"
#include "cli/command.h"
#include "conf/args.h"
#include "symbol/dwarf_symbolizer.h"
#include "symbol/symbol_code.h"
#include "symbol/symbol_process.h"

struct symbolize_arguments {
    bool help, unconfined, tables, tsv;
    int64_t memory;
    struct arg_list only;
    const char *code, *build_id, *objdump, *machine, *at;
};

static const struct arg args[] = {
    {0, "memory", ARG_SIZE, offsetof(struct symbolize_arguments, memory), "SIZE",
     "limit on the address space (default 8GiB)"},
    {0, "tsv", ARG_FLAG, offsetof(struct symbolize_arguments, tsv), NULL,
     "tab-separated output: address, function, system name, file, line, first line"},
    {0, "only", ARG_LIST, offsetof(struct symbolize_arguments, only), "DIR",
     "read only files below this directory; repeatable"},
    {0, "tables", ARG_FLAG, offsetof(struct symbolize_arguments, tables), NULL,
     "for the agent: requests on standard input about files that are passed by descriptor"},
    {0, "code", ARG_STRING, offsetof(struct symbolize_arguments, code), "ADDRESS-END",
     "for the server: the code of the function at this address of the file on standard input"},
    {0, "build-id", ARG_STRING, offsetof(struct symbolize_arguments, build_id), "ID",
     "--code: the file must have this build ID"},
    {0, "objdump", ARG_STRING, offsetof(struct symbolize_arguments, objdump), "PROGRAM",
     "for the server: disassembles the code on standard input with GNU objdump"},
    {0, "machine", ARG_STRING, offsetof(struct symbolize_arguments, machine), "NAME",
     "--objdump: the machine, as objdump calls it"},
    {0, "at", ARG_STRING, offsetof(struct symbolize_arguments, at), "ADDRESS", "--objdump: where the code begins"},
    {0, "unconfined", ARG_FLAG, offsetof(struct symbolize_arguments, unconfined), NULL, "do not drop privileges"},
    {'h', "help", ARG_FLAG, offsetof(struct symbolize_arguments, help), NULL, "show this help"},
    {0},
};

static void print_address(uint64_t address, const struct symbol_answer *a, uint32_t i)
{
    if (a->first[i] == a->first[i + 1])
        printf("0x%" PRIx64 " ??\n", address);
    for (uint32_t k = a->first[i]; k < a->first[i + 1]; k++) {
        const struct symbol_frame *f = &a->frames[k];

        printf("0x%" PRIx64 " %.*s", address, STR_FMT(f->function));
        if (f->file.n)
            printf(" %.*s:%" PRId64, STR_FMT(f->file), f->line);
        printf("%s\n", f->inlined ? " (inlined)" : "");
    }
}

static void print_tsv(uint64_t address, const struct symbol_answer *a, uint32_t i)
{
    if (a->first[i] == a->first[i + 1])
        printf("0x%" PRIx64 "\n", address);
    for (uint32_t k = a->first[i]; k < a->first[i + 1]; k++) {
        const struct symbol_frame *f = &a->frames[k];

        printf("0x%" PRIx64 "\t%.*s\t%.*s\t%.*s\t%" PRId64 "\t%" PRId64 "\n", address, STR_FMT(f->function),
               STR_FMT(f->system_name), STR_FMT(f->file), f->line, f->start_line);
    }
}

/* symbolize FILE ADDRESS…; fd: the file, opened before this process was confined (it may be below /proc). */
static int print_addresses(struct symbolizer *s, const int *fd, char **words, int n, bool tsv)
{
    _cleanup_(symbol_answer_freep) struct symbol_answer *a = NULL;
    _cleanup_(mem_freep) uint64_t *v = mem_zalloc_array((size_t) n, sizeof(*v));
    struct symbol_request q = {.path = str_from(words[0]), .fd = *fd >= 0 ? fd : NULL, .addresses = v, .lines = true};
    struct err e = {0};
    int r;

    if (!v)
        return command_end("symbolize", -ENOMEM, NULL);
    for (int i = 1; i < n; i++) {
        char *end;

        v[q.n_addresses++] = strtoull(words[i], &end, 16);
        if (*end || end == words[i])
            return command_misused("symbolize", "'%s' is not a hexadecimal address", words[i]);
    }
    r = symbolizer_resolve(s, &q, &a, &e);
    if (r < 0)
        return command_end("symbolize", r, &e);
    for (uint32_t i = 0; i < q.n_addresses; i++)
        (tsv ? print_tsv : print_address)(v[i], a, i);
    return EXIT_DONE;
}

static bool is_socket(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode);
}

static int confine(const struct symbolize_arguments *o, bool no_files)
{
    struct symbol_confine c = {(size_t) o->memory, o->only.n ? o->only.v : NULL, no_files};

    return symbol_process_confine(&c);
}

/* Descriptors that the agent passed on by accident are of no use here. */
static int serve_tables(const struct symbolize_arguments *o, struct err *e)
{
    int r = close_range(STDERR_FILENO + 1, ~0u, 0) < 0 ? -errno : 0;

    if (r == 0 && !o->unconfined)
        r = confine(o, true);
    if (r < 0)
        return command_end("symbolize", err_set(e, r, "cannot confine this process: %m"), e);
    mallopt(M_MMAP_THRESHOLD, 128 << 10); /* the memory of a large file is returned at once */
    mallopt(M_TRIM_THRESHOLD, 512 << 10);
    return command_end("symbolize", file_reader_serve(STDIN_FILENO), e);
}

/* symbolize --code ADDRESS-END <FILE */
static int print_code(const struct symbolize_arguments *o, struct err *e)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    struct symbol_code_request q = {.build_id = str_from(o->build_id)};
    char *rest;
    int r = o->unconfined ? 0 : confine(o, true);

    if (r < 0)
        return command_end("symbolize", err_set(e, r, "cannot confine this process: %s", strerror(-r)), e);
    q.address = strtoull(o->code, &rest, 16);
    q.end = *rest == '-' ? strtoull(rest + 1, &rest, 16) : q.address;
    if (*rest)
        return command_misused("symbolize", "'%s' is not ADDRESS-END (hexadecimal)", o->code);
    r = symbol_code(STDIN_FILENO, &q, &out, e);
    if (r < 0) { /* the caller reads standard output alone */
        buf_reset(&out);
        buf_printf(&out, "!%s\n", err_message(e, r));
    }
    r = fd_write_all(STDOUT_FILENO, out.p, out.n);
    return command_end("symbolize", r, e);
}

/* symbolize --objdump PROGRAM --machine NAME --at ADDRESS <CODE. The decoders of dozens of machines read strangers' bytes: they
 * can only read the system's programs and libraries, and write to standard output. */
static int run_objdump(const struct symbolize_arguments *o, struct err *e)
{
    static const char *const folders[] = {"/usr", "/lib", "/lib64", "/bin", "/nix", "/opt", NULL};
    const struct symbol_confine c = {.memory_max = (size_t) o->memory, .folders = folders, .may_exec = true};
    _cleanup_(buf_done) struct buf at = BUF_INIT;
    const char *argv[] = {o->objdump,           "-D", "-z",         "-b", "binary", "-m", o->machine,
                          "--no-show-raw-insn", NULL, "/dev/stdin", NULL};
    int r;

    buf_printf(&at, "--adjust-vma=0x%s", o->at ? o->at : "0");
    argv[8] = buf_cstr(&at);
    if (!o->machine || !argv[8])
        return command_misused("symbolize", "--objdump needs --machine");
    r = o->unconfined ? 0 : symbol_process_confine(&c);
    if (r < 0)
        return command_end("symbolize", err_set(e, r, "cannot confine this process: %s", strerror(-r)), e);
    execv(o->objdump, (char *const *) (uintptr_t) argv);
    return command_end("symbolize", err_set(e, -errno, "cannot run '%s': %m", o->objdump), e);
}

static int run(int argc, char **argv)
{
    _cleanup_(symbolizer_freep) struct symbolizer *s = NULL;
    _cleanup_(fd_closep) int fd = -1;
    struct symbolize_arguments o = {.memory = (int64_t) 8 << 30};
    struct err e = {0};
    int n, r = args_parse(args, &o, argc - 1, argv + 1, &n, &e);

    if (r < 0)
        return command_misused("symbolize", "%s", e.message);
    if (o.help) {
        args_text(
            "usage: wick symbolize BINARY ADDRESS...\n"
            "       wick symbolize               (run by `wick serve`: requests on standard input)\n\n"
            "Prints the functions and lines of addresses (hexadecimal, as in the file), innermost inlined function first.\n\n",
            stdout);
        args_help(args, stdout);
        return EXIT_DONE;
    }
    if (o.code)
        return print_code(&o, &e);
    if (o.objdump)
        return run_objdump(&o, &e);
    if (n == 1 || (n == 0 && !is_socket(STDIN_FILENO)))
        return command_misused("symbolize", n ? "ADDRESS is required" : "BINARY and ADDRESS are required");
    if (o.tables)
        return serve_tables(&o, &e);
    if (getpriority(PRIO_PROCESS, 0) < 0) /* that of a process that samples: lines are not urgent */
        setpriority(PRIO_PROCESS, 0, 0);
    unsetenv("DEBUGINFOD_URLS"); /* no network access */
    if (n > 0)
        fd = fd_open_regular(argv[1]);
    s = dwarf_symbolizer_new();
    r = s && !o.unconfined ? confine(&o, false) : 0;
    if (r < 0) /* untrusted files are not read with full privileges unless --unconfined is given */
        return command_end("symbolize", err_set(&e, r, "cannot confine this process: %s", strerror(-r)), &e);
    if (!s)
        return command_end("symbolize", -ENOMEM, NULL);
    if (n > 0)
        return print_addresses(s, &fd, argv + 1, n, o.tsv);
    return command_end("symbolize", symbol_process_serve(STDIN_FILENO, s), &e);
}

const struct command command_symbolize = {"symbolize", "print names and lines of addresses in a binary", run};
