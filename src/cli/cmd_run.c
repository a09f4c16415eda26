/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wick run -- CMD: starts a program with libwick-preload.so inside. Without -o the command replaces this process; with -o
 * it is waited for, and the files that it and its children wrote are merged into one.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compress.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/seccomp.h"
#include "cli/args.h"
#include "cli/command.h"
#include "codec/pprof.h"
#include "elf/elf.h"
#include "model/builder.h"
#include "model/convert.h"

struct run_options {
    const char *types, *export, *pprof, *output, *service;
    int64_t rate, depth, interval;
    bool help;
};

static const struct arg run_args[] = {
    {'t', "type", ARG_STRING, offsetof(struct run_options, types), "TYPES",
     "cpu, wall, alloc, heap, lock (default cpu)"},
    {'F', "rate", ARG_INT, offsetof(struct run_options, rate), "HZ", "samples a second of each thread (default 100)"},
    {0, "export", ARG_STRING, offsetof(struct run_options, export), "URL", "send OTLP profiles there every 10 s"},
    {0, "pprof", ARG_STRING, offsetof(struct run_options, pprof), "ADDR",
     "serve /debug/pprof/ there, for go tool pprof"},
    {'o', "output", ARG_STRING, offsetof(struct run_options, output), "FILE",
     "write a pprof at the end (default wick.pb.gz without --export and --pprof)"},
    {0, "alloc-interval", ARG_SIZE, offsetof(struct run_options, interval), "BYTES",
     "one allocation sample every so many bytes (default 512k)"},
    {0, "depth", ARG_INT, offsetof(struct run_options, depth), "N", "frames of a stack (default 128)"},
    {0, "service", ARG_STRING, offsetof(struct run_options, service), "NAME", "service.name (default the program's)"},
    {'h', "help", ARG_FLAG, offsetof(struct run_options, help), NULL, "this text"},
    {0},
};

static const char *const type_names[] = {"cpu", "wall", "alloc", "heap", "lock"};

static int check_types(const char *types, struct err *e)
{
    struct str rest = str_from(types ? types : "cpu");

    while (rest.n) {
        struct str one = str_trim(str_cut(&rest, ','));
        size_t i;

        for (i = 0; i < ARRAY_SIZE(type_names) && !str_is(one, type_names[i]); i++)
            ;
        if (i == ARRAY_SIZE(type_names))
            return err_set(e, -EINVAL, "--type: '%.*s' is not one of cpu, wall, alloc, heap, lock", STR_FMT(one));
    }
    return 0;
}

/* --- what is going to run --- */
static int find_program(const char *name, char *ret, size_t size, struct err *e)
{
    struct str path = str_from(getenv("PATH") ? getenv("PATH") : "/usr/local/bin:/usr/bin:/bin");

    if (strchr(name, '/')) {
        snprintf(ret, size, "%s", name);
        return access(name, F_OK) < 0 ? err_set(e, -errno, "cannot run '%s': %m", name) : 0;
    }
    while (path.n) {
        struct str dir = str_cut(&path, ':');

        if (snprintf(ret, size, "%.*s/%s", STR_FMT(dir), name) < (int) size && access(ret, X_OK) == 0)
            return 0;
    }
    return err_set(e, -ENOENT, "there is no command '%s'", name);
}

/* A script's interpreter is what gets profiled. */
static int script_interpreter(const char *path, char *ret, size_t size)
{
    _cleanup_(fd_closep) int fd = fd_open(AT_FDCWD, path, O_RDONLY, 0);
    char line[256] = "";
    struct str s;

    if (fd < 0 || fd_pread(fd, line, sizeof line - 1, 0) < 2 || line[0] != '#' || line[1] != '!')
        return 0;
    s = str_from(line + 2);
    s = str_trim(str_cut(&s, '\n'));
    s = str_cut(&s, ' ');
    snprintf(ret, size, "%.*s", STR_FMT(s));
    return 1;
}

static int check_elf(const char *path, struct err *e)
{
    _cleanup_(elf_freep) struct elf_file *f = NULL;
    struct stat st;
    bool dynamic = false;
    int r = elf_open(path, &f, e);

    if (r == -ENOEXEC) /* something that the kernel or a shell knows how to run */
        return 0;
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < f->n_segments; i++)
        dynamic |= f->segments[i].type == PT_INTERP;
    if (elf_find_section(f, ".go.buildinfo"))
        return err_set(
            e, -ENOTSUP,
            "'%s' is a Go program, which has a runtime of its own: serve net/http/pprof from it and use 'wick "
            "pprof http://HOST:PORT/debug/pprof/profile', or profile it from outside with 'wick record -- CMD'",
            path);
    if (!dynamic)
        return err_set(
            e, -ENOTSUP,
            "'%s' is statically linked: nothing can be loaded into it. Profile it from outside with 'wick record "
            "-- CMD', or link it with libwick",
            path);
    if (stat(path, &st) == 0 && st.st_mode & (S_ISUID | S_ISGID))
        return err_set(e, -EPERM, "'%s' is set-uid: the loader ignores LD_PRELOAD. Use 'wick record -- CMD' as root",
                       path);
    return 0;
}

static int check_program(const char *name, struct err *e)
{
    char path[4096], next[4096];
    int r = find_program(name, path, sizeof path, e);

    if (r == 0 && script_interpreter(path, next, sizeof next))
        return check_elf(next, e);
    return r < 0 ? r : check_elf(path, e);
}

/* --- the library --- */
static int find_library(char *ret, size_t size, struct err *e)
{
    static const char *const places[] = {"../sdk", "../lib/wick", "../lib64/wick", "../lib/x86_64-linux-gnu/wick",
                                         "../lib/aarch64-linux-gnu/wick"};
    const char *given = getenv("WICK_PRELOAD");
    char exe[4096];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    char *slash;

    if (given && *given) {
        snprintf(ret, size, "%s", given);
        return access(ret, R_OK) < 0 ? err_set(e, -errno, "WICK_PRELOAD=%s: %m", given) : 0;
    }
    exe[n > 0 ? n : 0] = 0;
    slash = strrchr(exe, '/');
    if (slash)
        *slash = 0;
    for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
        char path[4200];

        snprintf(path, sizeof path, "%s/%s/libwick-preload.so", exe, places[i]);
        if (access(path, R_OK) == 0 && realpath(path, ret))
            return 0;
    }
    return err_set(e, -ENOENT, "libwick-preload.so is not beside this wick; set WICK_PRELOAD to where it is");
}

static void set_number(const char *name, int64_t v)
{
    char text[24];

    snprintf(text, sizeof text, "%lld", (long long) v);
    setenv(name, text, 1);
}

static int set_environment(const struct run_options *o, struct err *e)
{
    char library[4096], both[8192];
    const char *was = getenv("LD_PRELOAD");
    int r = find_library(library, sizeof library, e);

    if (r < 0)
        return r;
    snprintf(both, sizeof both, "%s%s%s", library, was && *was ? ":" : "", was ? was : "");
    setenv("LD_PRELOAD", both, 1);
    setenv("WICK_TYPES", o->types ? o->types : "cpu", 1);
    set_number("WICK_SECCOMP", MAX(seccomp_filters(), 0));
    if (o->rate)
        set_number("WICK_RATE", o->rate);
    if (o->interval)
        set_number("WICK_ALLOC_INTERVAL", o->interval);
    if (o->depth)
        set_number("WICK_DEPTH", o->depth);
    if (o->export)
        setenv("WICK_EXPORT", o->export, 1);
    if (o->service)
        setenv("OTEL_SERVICE_NAME", o->service, 1);
    if (o->pprof)
        setenv("WICK_PPROF", o->pprof, 1);
    return 0;
}

static void run_command(char **argv)
{
    set_number("WICK_ROOT", getpid());
    execvp(argv[0], argv);
    fprintf(stderr, "wick run: cannot run '%s': %s\n", argv[0], strerror(errno));
    _exit(errno == ENOENT ? 127 : 126);
}

/* --- merging what was written --- */
/* p.PID.TYPE.pb.gz; the first type asked for has no TYPE. -1 for other names. */
static int part_type(struct str name, int first)
{
    if (!str_ends(name, STR(".pb.gz")))
        return -1;
    for (size_t i = 0; i < ARRAY_SIZE(type_names); i++) {
        char end[32];

        snprintf(end, sizeof end, ".%s.pb.gz", type_names[i]);
        if (str_ends(name, str_from(end)))
            return (int) i;
    }
    return first;
}

static int append_part(struct builder *b, const char *path, struct err *e)
{
    _cleanup_(buf_done) struct buf in = BUF_INIT;
    _cleanup_(batch_unrefp) struct batch *part = NULL;
    int r = fd_read_file(path, 1ul << 30, &in, e);

    if (r == 0)
        r = pprof_decode(&in, NULL, &part, e);
    return r < 0 ? r : builder_append(b, part);
}

static int write_merged(struct builder *b, const char *path, struct err *e)
{
    _cleanup_(batch_unrefp) struct batch *all = NULL, *one = NULL;
    _cleanup_(buf_done) struct buf plain = BUF_INIT, packed = BUF_INIT;
    int r = builder_finish(b, &all, e);

    if (r == 0)
        r = convert_to_single(all, &one, e);
    if (r == 0)
        r = pprof_encode(one, &one->profiles[0], &plain, e);
    if (r == 0)
        r = compress_deflate(COMPRESS_GZIP, 0, plain.p, plain.n, &packed, e);
    return r < 0 ? r : fd_write_file(path, packed.p, packed.n, e);
}

/* All parts of one type into one file; the number of processes that wrote one, 0 when there is none. */
static int merge_type(const char *dir, int type, int first, const char *output, struct err *e)
{
    _cleanup_(builder_freep) struct builder *b = NULL;
    DIR *d = opendir(dir);
    int n = 0, r = builder_new(NULL, &b);

    for (struct dirent *f; r == 0 && d && (f = readdir(d));) {
        char path[4600];

        if (part_type(str_from(f->d_name), first) != type)
            continue;
        snprintf(path, sizeof path, "%s/%s", dir, f->d_name);
        r = append_part(b, path, e);
        n++;
    }
    if (d)
        closedir(d);
    if (r == 0 && n)
        r = write_merged(b, output, e);
    return r < 0 ? r : n;
}

static void remove_parts(const char *dir)
{
    DIR *d = opendir(dir);

    for (struct dirent *f; d && (f = readdir(d));) {
        char path[4600];

        snprintf(path, sizeof path, "%s/%s", dir, f->d_name);
        if (f->d_name[0] != '.')
            fd_unlink(AT_FDCWD, path);
    }
    if (d)
        closedir(d);
    fd_rmdir(AT_FDCWD, dir);
}

static void output_name(const char *output, int type, bool is_first, char *ret, size_t size)
{
    struct str name = str_from(output), ext = STR("");

    if (str_ends(name, STR(".pb.gz")))
        ext = STR(".pb.gz");
    if (is_first)
        snprintf(ret, size, "%s", output);
    else
        snprintf(ret, size, "%.*s.%s%.*s", (int) (name.n - ext.n), name.p, type_names[type], STR_FMT(ext));
}

static int merge_all(const char *dir, const char *types, const char *output, struct err *e)
{
    struct str rest = str_from(types ? types : "cpu");
    int first = -1, wrote = 0;

    for (size_t i = 0; i < ARRAY_SIZE(type_names) && first < 0; i++) /* the order in which libwick names them */
        for (struct str t = rest; t.n && first < 0;) {
            struct str one = str_trim(str_cut(&t, ','));

            if (str_is(one, type_names[i]) || (i == 3 && str_is(one, "alloc")))
                first = i == 2 ? 3 : (int) i;
        }
    for (int type = 0; type < (int) ARRAY_SIZE(type_names); type++) {
        char path[4200];
        int n;

        output_name(output, type, type == first, path, sizeof path);
        n = merge_type(dir, type, first, path, e);
        if (n < 0)
            return n;
        if (n) {
            fprintf(stderr, "wick: wrote %s%s; look at it with: wick pprof %s\n", path, n > 1 ? " (all processes)" : "",
                    path);
            wrote++;
        }
    }
    return wrote ? 0
                 : err_set(e, -ENODATA, "the program wrote no profile: it ended at once, or by _exit() or a signal");
}

static pid_t child;

static void forward(int sig)
{
    if (child > 0)
        kill(child, sig);
}

static int wait_for(pid_t pid)
{
    struct sigaction on = {.sa_handler = forward}, ignore = {.sa_handler = SIG_IGN};
    int status;

    child = pid;
    sigaction(SIGTERM, &on, NULL);
    sigaction(SIGHUP, &on, NULL);
    sigaction(SIGINT, &ignore, NULL); /* the terminal sends it to the command as well */
    sigaction(SIGQUIT, &ignore, NULL);
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return EXIT_FAILED;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int run_and_merge(const struct run_options *o, const char *output, char **argv)
{
    struct err e = {0};
    char dir[4200], file[4300];
    pid_t pid;
    int status, merged;

    snprintf(dir, sizeof dir, "%s.parts.%d", output, (int) getpid());
    if (fd_mkdir(AT_FDCWD, dir, 0700) < 0 || !realpath(dir, file))
        return command_end("run", err_set(&e, -errno, "cannot write beside '%s': %m", output), &e);
    strncat(file, "/p.pb.gz", sizeof file - strlen(file) - 1);
    setenv("WICK_FILE", file, 1);
    pid = fork();
    if (pid == 0)
        run_command(argv);
    status = pid < 0 ? EXIT_FAILED : wait_for(pid);
    merged = command_end("run", merge_all(dir, o->types, output, &e), &e);
    remove_parts(dir);
    return status ? status : merged;
}

static int run(int argc, char **argv)
{
    struct run_options o = {0};
    struct err e = {0};
    int n;

    if (args_parse(run_args, &o, argc - 1, argv + 1, true, &n, &e) < 0 || check_types(o.types, &e) < 0)
        return command_misused("run", "%s", e.message);
    if (o.help) {
        printf(
            "usage: wick run [options] -- CMD [ARG...]\n\nRuns CMD and profiles it and its children from inside; nothing is "
            "recompiled.\n\n");
        args_help(run_args, stdout);
        return EXIT_DONE;
    }
    if (!n)
        return command_misused("run", "no command given");
    argv++;
    if (check_program(argv[0], &e) < 0 || set_environment(&o, &e) < 0)
        return command_end("run", e.code, &e);
    argv[n] = NULL;
    if (!o.output && !o.export && !o.pprof)
        o.output = "wick.pb.gz";
    if (o.output)
        return run_and_merge(&o, o.output, argv);
    run_command(argv);
    return EXIT_FAILED;
}

const struct command command_run = {"run", "run a program and profile it from inside", run};
