/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libwick-preload.so: profiles an unmodified program. `wick run` sets LD_PRELOAD and the variables below; the
 * constructor starts a provider, pthread_create() gives each thread its state from its first instruction on, and the
 * destructor sends the remaining samples. signal_hooks.c handles the other ways in which a program can end.
 *
 *   WICK_TYPES cpu,wall,alloc,heap,lock   WICK_RATE Hz             WICK_EXPORT endpoint or none   WICK_FILE out.pb.gz
 *   WICK_PPROF host:port                  WICK_ALLOC_INTERVAL B    WICK_DEPTH frames
 *   WICK_SECCOMP filters of `wick run`    WICK_ROOT command's pid  WICK_PARTS see part_send.h
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/seccomp.h"
#include "sdk/core.h"
#include "sdk/ending.h"
#include "sdk/futex_locks.h"
#include "sdk/heap.h"
#include "sdk/last_error.h"
#include "sdk/modules.h"
#include "sdk/new_hooks.h"
#include "sdk/part_send.h"
#include "sdk/provider.h"
#include "sdk/signal_hooks.h"
#include "sdk/start.h"
#include "sdk/static_alloc.h"
#include "sdk/sys.h"
#include "sdk/thread_hooks.h"

#define EXPORT __attribute__((visibility("default")))

/* --- threads --- */
static pthread_create_fn *real_create;

EXPORT int pthread_create(pthread_t *ret, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
    if (!__atomic_load_n(&real_create, __ATOMIC_ACQUIRE))
        __atomic_store_n(&real_create, (pthread_create_fn *) dlsym(RTLD_NEXT, "pthread_create"), __ATOMIC_RELEASE);
    return thread_hooks_create(real_create, ret, attr, run, arg);
}

/*
 * CPython 3.12 and later read the number of threads from /proc/self/stat at each fork() and warn if it is more than
 * one. The program is shown only its own threads: fopen() of that file returns a copy in which ours is not counted.
 */
static FILE *open_stat(FILE *real)
{
    char text[1024], *field;
    size_t n = fread(text, 1, sizeof text - 1, real);
    long threads;
    FILE *copy;
    char *end;

    text[n] = 0;
    field = strrchr(text, ')'); /* "PID (NAME) STATE ...": field 3 comes next, and the 20th is the number of threads */
    for (int i = 2; field && i < 20; i++)
        field = strchr(field + 1, ' ');
    threads = field ? strtol(field + 1, &end, 10) : 0;
    copy = threads > 1 ? fmemopen(NULL, sizeof text + 32, "w+") : NULL;
    if (!copy) {
        rewind(real);
        return real;
    }
    fprintf(copy, "%.*s %ld%s", (int) (field - text), text, threads - 1, end);
    rewind(copy);
    fclose(real);
    return copy;
}

static FILE *(*real_fopen)(const char *, const char *);

/* The same function under both of its names, because the headers may map fopen() to either. */
EXPORT FILE *open_file(const char *path, const char *mode) __asm__("fopen");
EXPORT FILE *open_file64(const char *path, const char *mode) __asm__("fopen64");

FILE *open_file(const char *path, const char *mode)
{
    struct wick_provider *p = provider_current();
    FILE *f;

    if (unlikely(!__atomic_load_n(&real_fopen, __ATOMIC_ACQUIRE)))
        __atomic_store_n(&real_fopen, (FILE * (*) (const char *, const char *) ) dlsym(RTLD_NEXT, "fopen"),
                         __ATOMIC_RELEASE);
    f = real_fopen(path, mode);
    if (likely(!f || !p || strcmp(path, "/proc/self/stat") != 0))
        return f;
    return p->pid == getpid() && atomic_load(&p->thread_running) ? open_stat(f) : f;
}

FILE *open_file64(const char *path, const char *mode)
{
    return open_file(path, mode);
}

/*
 * Chromium's processes that are to fork and to enter sandboxes check that they have one thread by the number of links of
 * /proc/self/task, which is that of its entries.
 */
static bool shows_threads(const char *path)
{
    struct wick_provider *p = path ? provider_current() : NULL;

    if (likely(!p) || !strstr(path, "self/task"))
        return false;
    path = strstr(path, "self/task") + strlen("self/task");
    return (!*path || strcmp(path, "/") == 0) && atomic_load(&p->thread_running) && p->pid == getpid();
}

/* The same function under both of its names: the structure has 64-bit fields under either. */
EXPORT int stat_at(int directory, const char *path, struct stat *ret, int flags) __asm__("fstatat");
EXPORT int stat_at64(int directory, const char *path, struct stat *ret, int flags) __asm__("fstatat64");

int stat_at(int directory, const char *path, struct stat *ret, int flags)
{
    int r = (int) sys_call(SYS_newfstatat, directory, (long) path, (long) ret, flags);

    if (r < 0) {
        errno = -r;
        return -1;
    }
    if (unlikely(shows_threads(path)) && ret->st_nlink > 3)
        ret->st_nlink--;
    return 0;
}

int stat_at64(int directory, const char *path, struct stat *ret, int flags)
{
    return stat_at(directory, path, ret, flags);
}

static char file_name[4096]; /* copies of WICK_FILE and WICK_ROOT, because programs like nginx clear their
                                environment */
static uint64_t root_pid;

/* --- the end of main --- */
/* A child of vfork() shares our memory. No system call once profiling has stopped: seccomp. */
static void main_ended(void)
{
    struct wick_provider *p = provider_current();

    if (p && atomic_load(&p->thread_running) && p->pid == getpid())
        heap_main_ended();
}

int (*preload_main)(int, char **, char **);
__attribute__((visibility("hidden"))) void *preload_start_main;
__attribute__((visibility("hidden"))) int preload_run_main(int argc, char **argv, char **envp);

__attribute__((constructor(101))) static void find_start_main(void)
{
    preload_start_main = dlsym(RTLD_NEXT, "__libc_start_main");
}

int preload_run_main(int argc, char **argv, char **envp)
{
    int status = preload_main(argc, argv, envp);

    main_ended();
    return status;
}

/* __libc_start_main(main, ...), called by the program's first instructions: with another main, all else unchanged. */
#if defined(__x86_64__)
__asm__(".text\n"
        ".globl __libc_start_main\n"
        ".type __libc_start_main, @function\n"
        "__libc_start_main:\n"
        "    .cfi_startproc\n"
        "    mov %rdi, preload_main(%rip)\n"
        "    lea preload_run_main(%rip), %rdi\n"
        "    jmp *preload_start_main(%rip)\n"
        "    .cfi_endproc\n"
        ".size __libc_start_main, . - __libc_start_main\n");
#elif defined(__aarch64__)
__asm__(".text\n"
        ".globl __libc_start_main\n"
        ".type __libc_start_main, %function\n"
        "__libc_start_main:\n"
        "    .cfi_startproc\n"
        "    adrp x16, preload_main\n"
        "    str x0, [x16, :lo12:preload_main]\n"
        "    adrp x0, preload_run_main\n"
        "    add x0, x0, :lo12:preload_run_main\n"
        "    adrp x16, preload_start_main\n"
        "    ldr x16, [x16, :lo12:preload_start_main]\n"
        "    br x16\n"
        "    .cfi_endproc\n"
        ".size __libc_start_main, . - __libc_start_main\n");
#endif

EXPORT void exit(int status)
{
    void (*real)(int) = (void (*)(int)) dlsym(RTLD_NEXT, "exit");

    main_ended();
    real(status);
    __builtin_unreachable();
}

/* The hooks are found by their names, except for functions of another allocator that do not call malloc(). */
static const char *unseen; /* an allocator */

void start_hooks(void)
{
    const char *name = NULL;

    if (core.types & (WICK_ALLOC | WICK_HEAP)) {
        new_hooks_install(heap_allocator());
        name = static_alloc_install();
    }
    if (name)
        unseen = name;
    if (core.types & WICK_LOCK)
        futex_locks_install();
}

/* --- start --- */
static void say(const char *what, const char *message)
{
    char line[640];
    int n = snprintf(line, sizeof line, "wick: %s process %d: %s\n", what, (int) getpid(), message);

    if (n > 0)
        (void) !write(STDERR_FILENO, line, MIN((size_t) n, sizeof line - 1));
}

int start_send_part(const char *type, const void *p, size_t n, struct err *e)
{
    return part_send(type, p, n, e);
}

void start_report(const char *message)
{
    static _Atomic bool reported;

    if (!atomic_exchange(&reported, true))
        say("cannot send the profiles of", message);
}

void start_chose(const char *text)
{
    if (root_pid == (uint64_t) getpid())
        say("the endpoint of", text);
}

void start_unseen(int64_t bytes)
{
    static _Atomic bool said;
    char text[160];

    if (atomic_exchange(&said, true))
        return;
    snprintf(text, sizeof text, "%lld MiB are not from malloc() but from another allocator, a garbage collector or mmap(): frame [unseen]",
             (long long) (bytes >> 20));
    say("of the memory of", text);
}

static uint64_t number(const char *name)
{
    const char *v = secure_getenv(name);
    uint64_t n = 0;

    return v && str_to_u64(str_from(v), 10, &n) == 0 ? n : 0;
}

/* out.pb.gz, or out.PID.pb.gz in a process other than the command itself. */
static const char *own_file(char *to, size_t size)
{
    struct str name = str_from(file_name);
    uint32_t at = name.n;

    if (!name.n || root_pid == (uint64_t) getpid())
        return file_name;
    for (uint32_t i = name.n; i > 0 && name.p[i - 1] != '/'; i--)
        if (name.p[i - 1] == '.')
            at = i - 1;
    snprintf(to, size, "%.*s.%d%.*s", (int) at, name.p, (int) getpid(), (int) (name.n - at), name.p + at);
    return to;
}

void start_child_file(struct wick_provider *p)
{
    char path[4096];

    if (p->s.file)
        p->s.file = arena_cstr(&p->s.arena, str_from(own_file(path, sizeof path)));
}

static void start(void)
{
    struct wick_options o = WICK_OPTIONS_INIT;
    const char *types = secure_getenv("WICK_TYPES"), *pprof = secure_getenv("WICK_PPROF");
    struct wick_provider *p;
    struct err e = {0};
    char path[4096];

    if (types && settings_parse_types(str_from(types), &o.types, &e) < 0) {
        say("profiling is off in", e.message);
        return;
    }
    o.rate = (unsigned) number("WICK_RATE");
    o.alloc_interval = number("WICK_ALLOC_INTERVAL");
    o.max_depth = (unsigned) number("WICK_DEPTH");
    o.export_interval_ms = (unsigned) number("WICK_EXPORT_INTERVAL_MS");
    o.endpoint = secure_getenv("WICK_EXPORT");
    o.file = own_file(path, sizeof path);
    p = wick_provider_new(&o);
    if (!p) {
        say("profiling is off in", wick_last_error());
        return;
    }
    if (unseen)
        say("allocations are not seen in", unseen);
    if (p->s.file || p->s.exporting)
        signal_hooks_start(root_pid);
    if (pprof && *pprof && root_pid == (uint64_t) getpid() && wick_serve_pprof(p, pprof) < 0)
        say("/debug/pprof is not served by", wick_last_error());
}

/* A seccomp filter that was installed after `wick run` and before exec() may kill the process for an unexpected system
 * call. Filters that were there before (a container's) do not count. */
static bool is_sealed(void)
{
    const char *before = secure_getenv("WICK_SECCOMP");

    return before && seccomp_filters() > (int) number("WICK_SECCOMP");
}

__attribute__((constructor(101))) static void on_load(void)
{
    if (!secure_getenv("WICK_TYPES") || is_sealed()) /* not loaded by wick run: start only if asked to */
        return;
    snprintf(file_name, sizeof file_name, "%s", secure_getenv("WICK_FILE") ? secure_getenv("WICK_FILE") : "");
    root_pid = number("WICK_ROOT");
    part_send_to(secure_getenv("WICK_PARTS"));
    core.context_static = true; /* this library's thread-local variables are (initial-exec) */
    modules_tables_later();
    start();
}

__attribute__((destructor(101))) static void on_unload(void)
{
    struct wick_provider *p = provider_current();

    if (!p || !atomic_load(&p->thread_running) || p->pid != getpid()) /* makes no system call once it is stopped:
                                                                         seccomp */
        return;
    thr_end_process((uint64_t) (uintptr_t) preload_main);
    if (root_pid != (uint64_t) p->pid && !provider_has_samples(p)) /* a short-lived child should not cost more than it does */
        return;
    ending_hurry(ENDING_EXPORT_MS);
    wick_stop(p);
}
