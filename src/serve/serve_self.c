/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles the server itself with libwick and serves the result as pprof. See serve_self.h. */
#include "serve/serve_self.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "server/front.h"
#include "wick.h"

enum { SECONDS_DEFAULT = 10, SECONDS_MAX = 300, RATE = 100 };

static struct {
    pthread_mutex_t lock; /* one profile at a time */
    void *library;
    __typeof__(wick_provider_new) *provider_new;
    __typeof__(wick_provider_free) *provider_free;
    __typeof__(wick_snapshot) *snapshot;
    __typeof__(wick_snapshot_free) *snapshot_free;
    __typeof__(wick_last_error) *last_error;
} self = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* --- the library --- */

static void open_library(void)
{
    static const char *const places[] = {"../sdk", "../lib", "../lib64", "../lib/x86_64-linux-gnu",
                                         "../lib/aarch64-linux-gnu"};
    char exe[2048], path[2200];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    char *slash;

    exe[n > 0 ? n : 0] = 0;
    slash = strrchr(exe, '/');
    if (slash)
        *slash = 0;
    for (size_t i = 0; !self.library && i < ARRAY_SIZE(places); i++) {
        snprintf(path, sizeof path, "%s/%s/libwick.so.1", exe, places[i]);
        if (access(path, R_OK) == 0)
            self.library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
}

static int load_library(struct err *e)
{
    if (self.last_error)
        return 0;
    open_library();
    if (!self.library)
        return err_set(e, -ENOSYS,
                       "libwick.so.1, which samples the server for these profiles, is not installed next to wick");
    self.provider_new = (__typeof__(self.provider_new)) dlsym(self.library, "wick_provider_new");
    self.provider_free = (__typeof__(self.provider_free)) dlsym(self.library, "wick_provider_free");
    self.snapshot = (__typeof__(self.snapshot)) dlsym(self.library, "wick_snapshot");
    self.snapshot_free = (__typeof__(self.snapshot_free)) dlsym(self.library, "wick_snapshot_free");
    if (!self.provider_new || !self.provider_free || !self.snapshot || !self.snapshot_free)
        return err_set(e, -ENOSYS, "the installed libwick has a different version");
    self.last_error = (__typeof__(self.last_error)) dlsym(self.library, "wick_last_error");
    return self.last_error ? 0 : err_set(e, -ENOSYS, "the installed libwick has a different version");
}

/* --- profiles --- */

static int take_snapshot(struct call *c, struct wick_provider *p, unsigned type, uint64_t seconds, struct err *e)
{
    int64_t until = clock_mono() + (int64_t) seconds * NS_PER_S;
    size_t size = 0;
    void *bytes = NULL;
    int r;

    while (clock_mono() < until && !atomic_load(&c->cancel))
        usleep(50000);
    r = self.snapshot(p, type, &bytes, &size);
    if (r < 0)
        return err_set(e, -EIO, "cannot record a profile: %.300s", self.last_error());
    buf_put(&c->out, bytes, size);
    self.snapshot_free(bytes, size);
    return 0;
}

static int profile(struct call *c, unsigned type, struct err *e)
{
    struct wick_options o = WICK_OPTIONS_INIT;
    uint64_t seconds = SECONDS_DEFAULT;
    struct wick_provider *p;
    int r = call_param_u64(c, "seconds", &seconds, e);

    if (r < 0)
        return r;
    if (pthread_mutex_trylock(&self.lock) != 0)
        return err_set(e, -EAGAIN, "a profile of the server is already being recorded");
    r = load_library(e);
    if (r == 0) {
        o.service_name = "wick";
        o.endpoint = "none";
        o.types = type;
        o.rate = RATE;
        o.cpu_budget = 0.05;
        o.signal = SIGPROF;
        p = self.provider_new(&o);
        r = p ? take_snapshot(c, p, type, MIN(MAX(seconds, 1), SECONDS_MAX), e)
              : err_set(e, -EIO, "cannot sample: %.300s", self.last_error());
        if (p)
            self.provider_free(p);
    }
    pthread_mutex_unlock(&self.lock);
    c->content_type = "application/octet-stream";
    return r;
}

static int run_cpu(struct call *c, struct err *e)
{
    return profile(c, WICK_CPU, e);
}

static int run_wall(struct call *c, struct err *e)
{
    return profile(c, WICK_WALL, e);
}

static int run_cmdline(struct call *c, struct err *e)
{
    c->content_type = "text/plain; charset=utf-8";
    return fd_read_file("/proc/self/cmdline", 1 << 16, &c->out, e);
}

static int run_index(struct call *c, struct err *e)
{
    (void) e;
    c->content_type = "text/plain; charset=utf-8";
    buf_printf(&c->out,
               "/debug/pprof/ of this server\n\n"
               "profile?seconds=N   CPU, N seconds (default %d, at most %d)\n"
               "wall?seconds=N      wall clock of all threads\n"
               "cmdline             command line of the server\n\n"
               "go tool pprof http://HOST:4040/debug/pprof/profile\n",
               SECONDS_DEFAULT, SECONDS_MAX);
    return 0;
}

static const struct route routes[] = {
    {"GET", "/debug/pprof/profile", AUTH_ADMIN, .run = run_cpu, .host = true, .own_thread = true},
    {"GET", "/debug/pprof/wall", AUTH_ADMIN, .run = run_wall, .host = true, .own_thread = true},
    {"GET", "/debug/pprof/cmdline", AUTH_ADMIN, false, run_cmdline, .host = true},
    {"GET", "/debug/pprof/", AUTH_READ, true, run_index, .host = true},
};

int serve_self_mount(struct front *f)
{
    return front_mount(f, routes, ARRAY_SIZE(routes));
}
