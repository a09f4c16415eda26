/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of `wick doctor` (doctor.h) for `wick serve`: ports, directories and disk space. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "client/ask.h"
#include "conf/paths.h"
#include "host/agent_rights.h"
#include "host/doctor.h"
#include "net/holder.h"
#include "server/auth.h"
#include "server/service_user.h"
#include "store/store.h"

static bool port_free(int port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t) port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    bool ok;

    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    ok = fd >= 0 && bind(fd, (struct sockaddr *) &a, sizeof a) == 0;
    fd_close(fd);
    return ok;
}

static void check_port(struct doctor_result *r, int port, const char *what, const char *option)
{
    char who[128], fix[200];

    if (port_free(port)) {
        doctor_say(r, DOCTOR_OK, "", "%d is free", port);
        return;
    }
    snprintf(fix, sizeof fix, "stop it, or choose another port: wick serve %s 127.0.0.1:PORT", option);
    if (!holder_of_port(port, who, sizeof who))
        snprintf(who, sizeof who, "a process of another user");
    if (strstr(who, "(wick)"))
        doctor_say(r, DOCTOR_OK, "", "%d is in use by %s", port, who);
    else
        doctor_say(r, DOCTOR_NOTE, fix, "%d (%s) is in use by %s", port, what, who);
}

static void check_api(struct doctor_result *r)
{
    check_port(r, 4040, "API and UI", "--http");
}

static void check_grpc(struct doctor_result *r)
{
    check_port(r, 4317, "OTLP/gRPC", "--otlp-grpc");
}

static void check_http(struct doctor_result *r)
{
    check_port(r, 4318, "OTLP/HTTP", "--otlp-http");
}

/* The nearest existing parent folder of path: where the first missing one would be created. */
static void nearest(const char *path, char ret[PATH_SIZE])
{
    snprintf(ret, PATH_SIZE, "%s", path);
    while (access(ret, F_OK) < 0) {
        char *slash = strrchr(ret, '/');

        if (!slash || slash == ret)
            break;
        *slash = 0;
    }
}

static void check_store_dir(struct doctor_result *r)
{
    char dir[PATH_SIZE], there[PATH_SIZE];
    struct err e = {0};

    if (path_store_dir(dir, &e) < 0) {
        doctor_say(r, DOCTOR_BAD, "set HOME, or use --store DIR", "no directory for the store: %.300s", e.message);
        return;
    }
    nearest(dir, there);
    if (access(there, W_OK | X_OK) < 0)
        doctor_say(r, DOCTOR_BAD, "use --store DIR, or run as its owner", "%.300s is not writable by this user", there);
    else
        doctor_say(r, DOCTOR_OK, "", "%.300s", dir);
}

static void check_store(struct doctor_result *r)
{
    _cleanup_(store_closep) struct store *s = NULL;
    struct store_config c = {.read_only = true};
    char dir[PATH_SIZE];
    struct err e = {0};
    struct store_stats st;

    if (path_store_dir(dir, NULL) < 0 || access(dir, F_OK) < 0) {
        doctor_say(r, DOCTOR_OK, "", "none yet");
        return;
    }
    c.dir = dir;
    if (store_open_place(&c, &s, &e) < 0)
        doctor_say(r, DOCTOR_NOTE, "if no other wick is running: wick store check", "cannot be read: %.300s",
                   e.message);
    else if (s->ops->stats(s, &st) == 0)
        doctor_say(r, st.damaged ? DOCTOR_NOTE : DOCTOR_OK, st.damaged ? "wick store check" : "",
                   "%llu samples, %llu MiB%s", (unsigned long long) st.stored_samples,
                   (unsigned long long) (st.disk_bytes >> 20), st.damaged ? ", damaged" : "");
}

static void check_space(struct doctor_result *r)
{
    char dir[PATH_SIZE], there[PATH_SIZE];
    uint64_t left = 0, total = 0;
    int fd;

    if (path_store_dir(dir, NULL) < 0)
        return;
    nearest(dir, there);
    fd = fd_open(AT_FDCWD, there, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0 || fd_space(fd, &left, &total) < 0)
        doctor_say(r, DOCTOR_NOTE, "", "unknown");
    else if (total && (double) left / (double) total < 0.05)
        doctor_say(r, DOCTOR_BAD, "free disk space, or use --store DIR: below 5 % nothing is stored",
                   "%llu MiB left, %.1f %%", (unsigned long long) (left >> 20), 100.0 * (double) left / (double) total);
    else
        doctor_say(r, DOCTOR_OK, "", "%llu MiB left", (unsigned long long) (left >> 20));
    fd_close(fd);
}

static void check_files(struct doctor_result *r)
{
    struct rlimit l;

    getrlimit(RLIMIT_NOFILE, &l);
    if (l.rlim_max < 4096)
        doctor_say(r, DOCTOR_NOTE, "ulimit -Hn 65536, or LimitNOFILE= in the unit", "at most %llu open files",
                   (unsigned long long) l.rlim_max);
    else
        doctor_say(r, DOCTOR_OK, "", "up to %llu", (unsigned long long) l.rlim_max);
}

static void check_clock(struct doctor_result *r)
{
    if (clock_wall() < 1735689600 * NS_PER_S) /* 2025 */
        doctor_say(r, DOCTOR_BAD, "set the clock: profiles with wrong times are refused",
                   "the clock is set to a date before 2025");
    else
        doctor_say(r, DOCTOR_OK, "", "plausible");
}

static void check_tokens(struct doctor_result *r)
{
    _cleanup_(auth_freep) struct auth *a = NULL;
    char dir[PATH_SIZE], path[PATH_SIZE + 8];
    struct err e = {0};

    if (path_data_dir(dir, NULL) < 0)
        return;
    snprintf(path, sizeof path, "%s/tokens", dir);
    if (auth_open(path, &a, &e) < 0)
        doctor_say(r, DOCTOR_BAD, "run as the server's user, or repair the file", "%.300s", e.message);
    else if (auth_required(a))
        doctor_say(r, DOCTOR_OK, "", "configured: every request requires one, /metrics included");
    else
        doctor_say(
            r, DOCTOR_OK, "",
            "none: the user who starts the server may do everything from this machine, its other users may send");
}

/* Which users the processes of a server have. */
static void check_users(struct doctor_result *r)
{
    struct service_user u;

    if (geteuid() != 0)
        doctor_say(r, DOCTOR_OK, "", "'wick serve' runs as the user who starts it (uid %u)", (unsigned) geteuid());
    else if (service_user_find(NULL, &u) < 0)
        doctor_say(r, DOCTOR_BAD, "name one: user: NAME in wick.yaml",
                   "no unprivileged user for 'wick serve' was found");
    else
        doctor_say(r, DOCTOR_OK, "", "started as root, 'wick serve' runs as %s (uid %u), its agent as uid %u", u.name,
                   (unsigned) u.uid, (unsigned) agent_rights_uid());
}

static void check_server(struct doctor_result *r)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    struct ask_target t = {0};
    struct err e = {0};

    if (ask_server(&t, "/readyz", &out, &e) == 0)
        doctor_say(r, DOCTOR_OK, "", "running");
    else
        doctor_say(r, DOCTOR_NOTE, "start one: wick serve", "%.300s", e.message);
}

const struct doctor_check doctor_serve[] = {
    {"UI port", "serve", check_api},           {"OTLP/gRPC port", "serve", check_grpc},
    {"OTLP/HTTP port", "serve", check_http},   {"store directory", "serve", check_store_dir},
    {"store", "serve", check_store},           {"disk", "serve", check_space},
    {"open files", "serve", check_files},      {"clock", "serve", check_clock},
    {"tokens", "serve", check_tokens},         {"users", "serve", check_users},
    {"running server", "serve", check_server}, {0},
};
