/* SPDX-License-Identifier: Apache-2.0 */
/* Starts a program with libwick-preload.so loaded into it (run_program.h). */
#include "record/run_program.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/seccomp.h"
#include "base/url.h"
#include "conf/paths.h"
#include "convert/convert_output.h"
#include "elf/elf.h"
#include "record/run_parts.h"
#include "record/run_python.h"

enum { UP_TO_ROOT = 64 }; /* more than the depth of any directory */

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
    struct stat st;
    int r;

    if (strchr(name, '/')) {
        if (snprintf(ret, size, "%s", name) >= (int) size)
            return err_set(e, -ENAMETOOLONG, "the program's path is longer than %zu bytes: %.100s…", size - 1, name);
        r = stat(name, &st) < 0 ? -errno : S_ISDIR(st.st_mode) ? -EISDIR : access(name, X_OK) < 0 ? -errno : 0;
        return r < 0 ? err_set(e, r, "cannot run '%s': %m", name) : 0;
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

static int check_program(const char *path, struct err *e)
{
    char next[4096];
    bool script = script_interpreter(path, next, sizeof next);
    int r = check_elf(script ? next : path, e);

    return script && r == -ENOENT ? err_set(e, r, "cannot run '%s': its interpreter '%s' does not exist", path, next)
                                  : r;
}

/* As a shell's for a command that it cannot start; 0: wick refuses the program. */
static int status_of(int r)
{
    return r == -ENOENT ? 127 : r == -EACCES || r == -EISDIR || r == -ENOTDIR ? 126 : 0;
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
    if (o->rate != RUN_UNSET)
        set_number("WICK_RATE", o->rate);
    if (o->interval != RUN_UNSET)
        set_number("WICK_ALLOC_INTERVAL", o->interval);
    if (o->depth != RUN_UNSET)
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
    _exit(status_of(-errno) == 127 ? 127 : 126);
}

/* --- running it --- */
static pid_t child;
static int killed_by; /* a signal; 0: none */

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
            return EXIT_FAILURE;
    child = 0;
    killed_by = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* libwick sees the interpreter, not what it interprets. */
static void tell_python(const char *program)
{
    char path[4096];

    if (find_program(program, path, sizeof path, NULL) == 0 && run_python_is(path))
        fprintf(
            stderr,
            "wick: Python functions are not in this profile. 'wick run -o FILE' with CPU time alone shows them if the "
            "kernel allows it ('wick doctor'), and 'python -m wick run' shows them in all types (docs/python.md)\n");
}

static int run_and_merge(const struct run_options *o, char **argv, int *ret_status, struct err *e)
{
    struct run_parts parts;
    pid_t pid;
    int r = run_parts_open(o->output, &parts, e);

    if (r < 0)
        return r;
    pid = fork();
    if (pid == 0)
        run_command(argv);
    run_parts_receive(&parts);
    *ret_status = pid < 0 ? EXIT_FAILURE : wait_for(pid);
    r = run_parts_merge(&parts, o->types, o->output, e);
    if (r == -ENODATA && killed_by)
        err_set(e, r, "the program was killed by signal %d (%s) before it could write its profile", killed_by,
                strsignal(killed_by));
    if (r == 0 && (killed_by == SIGKILL || killed_by == SIGSEGV || killed_by == SIGBUS || killed_by == SIGILL ||
                   killed_by == SIGFPE || killed_by == SIGTRAP))
        fprintf(stderr, "wick: the command was killed by signal %d (%s): its own samples are not in the profile\n",
                killed_by, strsignal(killed_by));
    run_parts_done(&parts);
    if (r == 0)
        tell_python(argv[0]);
    return r;
}

/* --- options --- */
static int check_range(const char *name, int64_t v, int64_t min, int64_t max, const char *what, struct err *e)
{
    if (v == RUN_UNSET || (v >= min && v <= max))
        return 0;
    return err_set(e, -EINVAL, "%s %lld is out of range: %lld to %lld %s", name, (long long) v, (long long) min,
                   (long long) max, what);
}

static int check_export(const char *text, struct err *e)
{
    struct url_endpoint u;
    struct err why = {0};
    int r;

    if (!text || strcmp(text, "none") == 0)
        return 0;
    r = url_endpoint(text, &u, &why);
    if (r < 0)
        return err_set(e, r, "--export: %s", why.message);
    if (!u.scheme && !u.port)
        return err_set(e, -EINVAL, "--export '%s' is not an endpoint such as http://localhost:4317", text);
    return 0;
}

/* The address itself is parsed by the program that listens on it. */
static int check_pprof(const char *text, struct err *e)
{
    const char *port = text ? strrchr(text, ':') : NULL;
    uint64_t n;

    if (text && (!port || str_to_u64(str_from(port + 1), 10, &n) < 0 || n > 65535))
        return err_set(e, -EINVAL, "--pprof '%s' is not an address such as localhost:6060", text);
    return 0;
}

int run_program_check(const struct run_options *o, struct err *e)
{
    int r = check_types(o->types, e);

    if (r == 0)
        r = check_export(o->export, e);
    if (r == 0)
        r = check_pprof(o->pprof, e);

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
    static const char *const others[] = {".png", ".pdf", ".zst"};
    const char *format = convert_output_format(output);

    for (size_t i = 0; i < ARRAY_SIZE(others); i++)
        if (str_ends(str_from(output), str_from(others[i])))
            format = others[i];
    if (format && strcmp(format, "pprof") != 0)
        return err_set(
            e, -EINVAL,
            "--output %s: wick run writes pprof. Write a .pb.gz file and turn it into %s with 'wick convert' or "
            "'wick pprof'",
            output, format);
    return path_check_output("--output", output, e);
}

int run_program(const struct run_options *options, char **argv, int *ret_status, struct err *e)
{
    struct run_options o = *options;
    char path[4096];
    int r = find_program(argv[0], path, sizeof path, e);

    if (r == 0)
        r = check_program(path, e);
    *ret_status = status_of(r);
    if (!o.output && !o.export && !o.pprof)
        o.output = "wick.pb.gz";
    if (r == 0 && o.output)
        r = check_output(o.output, e);
    if (r == 0 && run_python_is(path) && run_python_can_record(&o))
        return run_python_record(&o, argv, ret_status, e);
    if (r == 0)
        r = set_environment(&o, e);
    if (r < 0)
        return r;
    if (o.output)
        return run_and_merge(&o, argv, ret_status, e);
    run_command(argv);
    return -EIO; /* not reached */
}
