/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wick run -- CMD: starts a program with libwick-preload.so loaded into it. Without -o the command replaces this
 * process; with -o this process waits for it, and merges the files that it and its children wrote into one.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/seccomp.h"
#include "cli/command.h"
#include "conf/paths.h"
#include "record/run_parts.h"
#include "conf/args.h"
#include "elf/elf.h"

#define UNSET INT64_MIN

enum { UP_TO_ROOT = 64 }; /* more than the depth of any directory */

struct run_options {
    const char *types, *export, *pprof, *output, *service;
    int64_t rate, depth, interval;
    bool help;
};

static const struct arg run_args[] = {
    {'t', "type", ARG_STRING, offsetof(struct run_options, types), "TYPES",
     "cpu, wall, alloc, heap, lock (default cpu)"},
    {'F', "rate", ARG_INT, offsetof(struct run_options, rate), "HZ", "samples per second and thread (default 100)"},
    {0, "export", ARG_STRING, offsetof(struct run_options, export), "URL",
     "send OTLP profiles to this endpoint every 10 s"},
    {0, "pprof", ARG_STRING, offsetof(struct run_options, pprof), "ADDR",
     "serve /debug/pprof/ on this address, for go tool pprof"},
    {'o', "output", ARG_STRING, offsetof(struct run_options, output), "FILE",
     "write a pprof file at exit (default: wick.pb.gz, unless --export or --pprof is given)"},
    {0, "alloc-interval", ARG_SIZE, offsetof(struct run_options, interval), "BYTES",
     "average bytes between allocation samples (default 512k)"},
    {0, "depth", ARG_INT, offsetof(struct run_options, depth), "N", "maximum stack depth (default 128)"},
    {0, "service", ARG_STRING, offsetof(struct run_options, service), "NAME",
     "service.name (default: the program's name)"},
    {'h', "help", ARG_FLAG, offsetof(struct run_options, help), NULL, "show this help"},
    {0},
};

static int check_types(const char *types, struct err *e)
{
    struct str rest = str_from(types ? types : "cpu");

    while (rest.n) {
        struct str one = str_trim(str_cut(&rest, ','));
        size_t i;

        for (i = 0; i < ARRAY_SIZE(run_parts_types) && !str_is(one, run_parts_types[i]); i++)
            ;
        if (i == ARRAY_SIZE(run_parts_types))
            return err_set(e, -EINVAL, "--type: '%.*s' is not one of cpu, wall, alloc, heap, lock", STR_FMT(one));
    }
    return 0;
}

/* --- the program to run --- */
static int find_program(const char *name, char *ret, size_t size, struct err *e)
{
    struct str path = str_from(getenv("PATH") ? getenv("PATH") : "/usr/local/bin:/usr/bin:/bin");

    if (strchr(name, '/')) {
        if (snprintf(ret, size, "%s", name) >= (int) size)
            return err_set(e, -ENAMETOOLONG, "the program's path is longer than %zu bytes: %.100s…", size - 1, name);
        return access(name, F_OK) < 0 ? err_set(e, -errno, "cannot run '%s': %m", name) : 0;
    }
    while (path.n) {
        struct str dir = str_cut(&path, ':');

        if (snprintf(ret, size, "%.*s/%s", STR_FMT(dir), name) < (int) size && access(ret, X_OK) == 0)
            return 0;
    }
    return err_set(e, -ENOENT, "command '%s' not found", name);
}

/* For a script, the interpreter is profiled. */
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

/* The path of the dynamic loader that the program requests, empty for a static one. */
static struct str loader_of(const struct elf_file *f)
{
    for (uint32_t i = 0; i < f->n_segments; i++) {
        struct elf_bytes b =
            f->segments[i].type == PT_INTERP ? elf_segment_bytes(f, &f->segments[i]) : (struct elf_bytes){0};

        if (b.p && b.n)
            return (struct str){(const char *) b.p, (uint32_t) strnlen((const char *) b.p, b.n)};
    }
    return (struct str){0};
}

static int check_elf(const char *path, struct err *e)
{
    _cleanup_(elf_freep) struct elf_file *f = NULL;
    struct str loader;
    struct stat st;
    int r = elf_open(path, &f, e);

    if (r == -ENOEXEC) /* something that the kernel or a shell may be able to run */
        return 0;
    if (r < 0)
        return r;
    loader = loader_of(f);
    if (elf_find_section(f, ".go.buildinfo"))
        return err_set(
            e, -ENOTSUP,
            "'%s' is a Go program, which libwick cannot profile: serve net/http/pprof from it and use 'wick "
            "pprof http://HOST:PORT/debug/pprof/profile', or profile it from outside with 'wick record -- CMD'",
            path);
    if (!loader.n)
        return err_set(
            e, -ENOTSUP,
            "'%s' is statically linked, so no library can be loaded into it. Profile it from outside with 'wick record "
            "-- CMD', or link it with libwick",
            path);
    if (str_find(loader, STR("/ld-musl-")) >= 0)
        return err_set(
            e, -ENOTSUP,
            "'%s' uses musl, but libwick requires the GNU C library. Profile it from outside with 'wick record "
            "-- CMD'",
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
        return realpath(given, ret) ? 0 : err_set(e, -errno, "WICK_PRELOAD=%s: %m", given);
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
    char library[4096], both[8192], up[UP_TO_ROOT * 3 + 1] = "";
    const char *was = getenv("LD_PRELOAD");
    int r = find_library(library, sizeof library, e), filters = seccomp_filters();

    if (r < 0)
        return r;
    if (strpbrk(library, ": "))
        return err_set(e, -EINVAL, "'%s': LD_PRELOAD cannot name a path with a blank or a colon", library);
    /* The path leads from the program's directory up to the root, and down to the library. musl does not support
     * $ORIGIN and ignores such a path; it would load a plain path, find no GNU C library, and fail to start the program
     * (a child of the command). */
    for (int i = 0; i < UP_TO_ROOT; i++)
        memcpy(up + 3 * i, "/..", 4);
    snprintf(both, sizeof both, "$ORIGIN%s%s%s%s", up, library, was && *was ? ":" : "", was ? was : "");
    setenv("LD_PRELOAD", both, 1);
    setenv("WICK_TYPES", o->types ? o->types : "cpu", 1);
    set_number("WICK_SECCOMP", filters > 0 ? filters : 0);
    if (o->rate != UNSET)
        set_number("WICK_RATE", o->rate);
    if (o->interval != UNSET)
        set_number("WICK_ALLOC_INTERVAL", o->interval);
    if (o->depth != UNSET)
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

/* --- running it --- */
static pid_t child;

/* Ctrl-C and Ctrl-\\ reach the command anyway: the terminal sends them to all processes of its group. */
static void forward(int sig, siginfo_t *si, void *uc)
{
    if (child > 0 && !((sig == SIGINT || sig == SIGQUIT) && si->si_code == SI_KERNEL))
        kill(child, sig);
}

static int wait_for(pid_t pid)
{
    static const int forwarded[] = {SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2};
    struct sigaction on = {.sa_sigaction = forward, .sa_flags = SA_SIGINFO | SA_RESTART};
    int status;

    child = pid;
    for (size_t i = 0; i < ARRAY_SIZE(forwarded); i++)
        sigaction(forwarded[i], &on, NULL);
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return EXIT_FAILED;
    child = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* libwick sees the interpreter, not what it interprets. */
static void tell_python(const char *program)
{
    const char *base = strrchr(program, '/');

    base = base ? base + 1 : program;
    if (strncmp(base, "python", 6) == 0)
        fprintf(
            stderr,
            "wick: Python functions are not in this profile: 'wick record -- %s …' shows them, also without root, and so "
            "does 'python -m wick run' (docs/python.md)\n",
            base);
}

static int run_and_merge(const struct run_options *o, const char *output, char **argv)
{
    struct run_parts parts;
    struct err e = {0};
    pid_t pid;
    int status, merged;

    if (run_parts_open(output, &parts, &e) < 0)
        return command_end("run", e.code, &e);
    pid = fork();
    if (pid == 0)
        run_command(argv);
    run_parts_receive(&parts);
    status = pid < 0 ? EXIT_FAILED : wait_for(pid);
    merged = command_end("run", run_parts_merge(&parts, o->types, output, &e), &e);
    run_parts_done(&parts);
    if (merged == EXIT_DONE)
        tell_python(argv[0]);
    return status ? status : merged;
}

/* --- options --- */
static int check_range(const char *name, int64_t v, int64_t min, int64_t max, const char *what, struct err *e)
{
    if (v == UNSET || (v >= min && v <= max))
        return 0;
    return err_set(e, -EINVAL, "%s %lld is out of range: %lld to %lld %s", name, (long long) v, (long long) min,
                   (long long) max, what);
}

static int check_options(const struct run_options *o, struct err *e)
{
    int r = check_types(o->types, e);

    if (r == 0)
        r = check_range("--rate", o->rate, 1, 10000, "samples per second", e);
    if (r == 0)
        r = check_range("--depth", o->depth, 1, 1024, "frames", e);
    if (r == 0)
        r = check_range("--alloc-interval", o->interval, 1, INT64_C(1) << 40, "bytes", e);
    return r;
}

/* Checked before the program runs: a recording that takes hours must not be lost at the end. */
static int check_output(const char *output, struct err *e)
{
    static const char *const others[] = {".svg",       ".html", ".json", ".txt", ".folded",
                                         ".collapsed", ".otlp", ".png",  ".pdf"};

    for (size_t i = 0; i < ARRAY_SIZE(others); i++)
        if (str_ends(str_from(output), str_from(others[i])))
            return err_set(
                e, -EINVAL,
                "--output %s: wick run writes pprof. Write a .pb.gz file and turn it into %s with 'wick convert' or "
                "'wick pprof'",
                output, others[i]);
    return path_check_output("--output", output, e);
}

static int run(int argc, char **argv)
{
    struct run_options o = {.rate = UNSET, .depth = UNSET, .interval = UNSET};
    struct err e = {0};
    int n;

    if (args_parse_leading(run_args, &o, argc - 1, argv + 1, &n, &e) < 0 || check_options(&o, &e) < 0)
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
    if (o.output && check_output(o.output, &e) < 0)
        return command_end("run", e.code, &e);
    if (o.output)
        return run_and_merge(&o, o.output, argv);
    run_command(argv);
    return EXIT_FAILED;
}

const struct command command_run = {"run", "run a program and profile it from inside", run};
