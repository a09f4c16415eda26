/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libwick-preload.so: profiles a program that knows nothing of it. `wick run` sets LD_PRELOAD and the variables below; the
 * constructor starts a provider, pthread_create() gives each thread its state from its first instruction on, and the
 * destructor sends what is left. A program that is ended by SIGTERM, SIGINT or SIGHUP and has no handler of its own
 * gets to send as well before it dies.
 *
 *   WICK_TYPES cpu,wall,alloc,heap,lock   WICK_RATE Hz             WICK_EXPORT endpoint or none   WICK_FILE out.pb.gz
 *   WICK_PPROF host:port                  WICK_ALLOC_INTERVAL B    WICK_DEPTH frames              WICK_ROOT pid of the command
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "sdk/core.h"
#include "sdk/heap.h"
#include "sdk/new_hooks.h"
#include "sdk/provider.h"
#include "sdk/start.h"
#include "sdk/sys.h"
#include "sdk/thread_hooks.h"
#include "sdk/words.h"

#define EXPORT __attribute__((visibility("default")))

/* --- threads --- */
static pthread_create_fn *real_create;

EXPORT int pthread_create(pthread_t *ret, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
    if (!__atomic_load_n(&real_create, __ATOMIC_ACQUIRE))
        __atomic_store_n(&real_create, (pthread_create_fn *) dlsym(RTLD_NEXT, "pthread_create"), __ATOMIC_RELEASE);
    return thread_hooks_create(real_create, ret, attr, run, arg);
}

static char file_name[4096]; /* WICK_FILE and WICK_ROOT, kept: programs like nginx clear their environment */
static uint64_t root_pid;

/* --- the end --- */
static const int ending[] = {SIGTERM, SIGINT, SIGHUP};
static _Atomic int ended_by;
static _Atomic bool ending_seen;

static void on_ending(int sig)
{
    int none = 0;

    if (!atomic_compare_exchange_strong(&ended_by, &none, sig))
        return;
    atomic_store(&ending_seen, true);
    handler_wake();
}

/* _exit() runs no destructors, and shells end by it. It may be called in a signal handler, so nothing here waits for
 * ever; a child of vfork() has another pid and leaves its parent's provider alone. Children too short for a sample (a
 * shell makes thousands) have nothing to say. */
static void leave(void)
{
    struct wick_provider *p = provider_current();
    pid_t pid = (pid_t) sys_call(SYS_getpid, 0, 0, 0, 0);

    if (!p || p->pid != pid || !atomic_load(&p->thread_running) || !(p->s.file || p->s.exporting))
        return;
    if (root_pid == (uint64_t) pid)
        wick_flush(p, 2000);
    else if (heap_samples() > p->heap_samples_before ||
             sys_clock_ns(CLOCK_PROCESS_CPUTIME_ID) > 1000000000 / MAX((int64_t) atomic_load(&core.rate), 1))
        wick_flush(p, 300);
}

EXPORT void _exit(int status)
{
    leave();
    for (;;)
        sys_call(SYS_exit_group, status, 0, 0, 0);
}

EXPORT void _Exit(int status)
{
    _exit(status);
}

static void *ending_main(void *arg)
{
    int sig = atomic_load(&ended_by);
    struct wick_provider *p = provider_current();

    if (p)
        wick_flush(p, 0);
    signal(sig, SIG_DFL);
    kill(getpid(), sig);
    return NULL;
}

/* Called by the background thread each time round. The flush runs beside it, because it is the one that flushes. */
void start_check_ending(void)
{
    pthread_t t;

    if (atomic_exchange(&ending_seen, false) && pthread_create(&t, NULL, ending_main, NULL) == 0)
        pthread_detach(t);
}

/* They are there by their names, but for the entrances of another allocator that do not lead through malloc(). */
void start_hooks(void)
{
    if (core.types & (WICK_ALLOC | WICK_HEAP))
        new_hooks_install(heap_allocator());
}

static void watch_ending(void)
{
    struct sigaction sa = {.sa_handler = on_ending, .sa_flags = SA_RESTART}, was;

    for (size_t i = 0; i < ARRAY_SIZE(ending); i++)
        if (sigaction(ending[i], NULL, &was) == 0 && !(was.sa_flags & SA_SIGINFO) && was.sa_handler == SIG_DFL)
            sigaction(ending[i], &sa, NULL);
}

/* --- start --- */
static void say(const char *what, const char *words)
{
    char line[640];
    int n = snprintf(line, sizeof line, "wick: %s process %d: %s\n", what, (int) getpid(), words);

    if (n > 0)
        (void) !write(STDERR_FILENO, line, MIN((size_t) n, sizeof line - 1));
}

void start_tell(const char *words)
{
    static _Atomic bool told;

    if (!atomic_exchange(&told, true))
        say("cannot send the profiles of", words);
}

static uint64_t number(const char *name)
{
    const char *v = getenv(name);
    uint64_t n = 0;

    return v && str_to_u64(str_from(v), 10, &n) == 0 ? n : 0;
}

/* out.pb.gz of another process than the command itself: out.PID.pb.gz. */
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
    const char *types = getenv("WICK_TYPES"), *pprof = getenv("WICK_PPROF");
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
    o.endpoint = getenv("WICK_EXPORT");
    o.file = own_file(path, sizeof path);
    p = wick_provider_new(&o);
    if (!p) {
        say("profiling is off in", wick_last_error());
        return;
    }
    if (p->s.file || p->s.exporting)
        watch_ending();
    if (pprof && *pprof && root_pid == (uint64_t) getpid() && wick_serve_pprof(p, pprof) < 0)
        say("/debug/pprof is not served by", wick_last_error());
}

__attribute__((constructor(101))) static void on_load(void)
{
    if (!getenv("WICK_TYPES")) /* loaded by somebody else than wick run: only when asked */
        return;
    snprintf(file_name, sizeof file_name, "%s", getenv("WICK_FILE") ? getenv("WICK_FILE") : "");
    root_pid = number("WICK_ROOT");
    start();
}

__attribute__((destructor(101))) static void on_unload(void)
{
    struct wick_provider *p = provider_current();

    if (p && p->pid == getpid())
        wick_stop(p);
}
