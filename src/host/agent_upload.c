/* SPDX-License-Identifier: Apache-2.0 */
/* Runs `wick symbols upload` for one file after another, within limits on bandwidth and CPU time. */
#include "host/agent_upload.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/url.h"

extern char **environ;

enum { TRIES_MAX = 8, CPU_PART = 1000 };
static const int64_t BYTES_PER_S = 1 << 20;

struct agent_upload {
    char server[512];
    char path[PATH_MAX]; /* of the current file; empty: none */
    unsigned tries;
    pid_t pid;
    int64_t next; /* not before this */
};

/* http://collector:4317/x -> http://collector:4040 */
static int server_beside(const char *export, char *ret, size_t size, struct err *e)
{
    struct str s = str_from(export ? export : ""), host = s;
    ptrdiff_t at = str_find(s, STR("://"));
    bool tls = str_starts(s, STR("https:")) || str_starts(s, STR("grpcs:"));
    uint32_t n = 0;

    if (at >= 0)
        host = str_slice(s, (size_t) at + 3, s.n);
    if (host.n && host.p[0] == '[') /* an IPv6 address */
        n = (uint32_t) (str_find_char(host, ']') + 1);
    while (n < host.n && host.p[n] != ':' && host.p[n] != '/')
        n++;
    if (!n)
        return err_set(e, -EINVAL, "--upload-symbols requires --server URL");
    snprintf(ret, size, "http%s://%.*s:4040", tls ? "s" : "", (int) n, host.p);
    return 0;
}

int agent_upload_new(const char *server, const char *export, const char *token, struct agent_upload **ret,
                     struct err *e)
{
    struct agent_upload *u = mem_zalloc(sizeof *u);
    int r = 0;

    if (!u)
        return -ENOMEM;
    server = server ? server : getenv("WICK_SERVER");
    if (server)
        snprintf(u->server, sizeof u->server, "%s", server);
    else
        r = server_beside(export, u->server, sizeof u->server, e);
    if (r < 0) {
        mem_free(u);
        return r;
    }
    if (token)
        setenv("WICK_TOKEN", token, 1); /* not among the arguments, which all users can read */
    *ret = u;
    return 0;
}

void agent_upload_free(struct agent_upload *u)
{
    if (!u)
        return;
    if (u->pid > 0) {
        kill(u->pid, SIGKILL);
        waitpid(u->pid, NULL, 0);
    }
    mem_free(u);
}

static void pause_after(struct agent_upload *u, const struct rusage *used)
{
    int64_t cpu = clock_rusage(used) * CPU_PART / MAX(sysconf(_SC_NPROCESSORS_ONLN), 1l);
    struct stat st = {0};

    if (stat(u->path, &st) == 0)
        cpu = MAX(cpu, st.st_size * (NS_PER_S / BYTES_PER_S));
    u->next = clock_mono() + cpu;
}

static void reap(struct agent_upload *u)
{
    struct rusage used;
    char shown[URL_SHOWN];
    int status;

    if (u->pid <= 0 || wait4(u->pid, &status, WNOHANG, &used) != u->pid)
        return;
    u->pid = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        pause_after(u, &used);
        u->path[0] = 0;
        return;
    }
    if (u->tries == 1)
        log_warn("cannot upload %s to %s", u->path, url_redact(u->server, shown, sizeof shown));
    if (u->tries >= TRIES_MAX)
        u->path[0] = 0;
    u->next = clock_mono() + (5 * NS_PER_S << MIN(u->tries, (unsigned) TRIES_MAX));
}

static void start(struct agent_upload *u)
{
    char wick[] = "wick", symbols[] = "symbols", verb[] = "upload", missing[] = "--if-missing", server[] = "--server";
    char input[] = "-";
    char *argv[] = {wick, symbols, verb, missing, server, u->server, input, NULL};
    /* By descriptor: the child has none of the agent's capabilities and might not be able to open the path. */
    _cleanup_(fd_closep) int fd = fd_open_regular(u->path);
    posix_spawn_file_actions_t fa;
    posix_spawnattr_t attr;
    sigset_t none;
    int r;

    if (fd < 0) { /* the file is gone */
        u->path[0] = 0;
        return;
    }
    sigemptyset(&none);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
    posix_spawn_file_actions_init(&fa);
    posix_spawn_file_actions_adddup2(&fa, fd, STDIN_FILENO);
    posix_spawn_file_actions_addopen(&fa, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    r = posix_spawn(&u->pid, "/proc/self/exe", &fa, &attr, argv, environ);
    posix_spawn_file_actions_destroy(&fa);
    posix_spawnattr_destroy(&attr);
    if (r != 0)
        u->pid = 0;
    u->tries++;
    u->next = clock_mono() + 5 * NS_PER_S;
}

void agent_upload_step(struct agent_upload *u, struct agent *a)
{
    reap(u);
    if (u->pid > 0 || clock_mono() < u->next)
        return;
    if (!u->path[0]) {
        u->tries = 0;
        if (!agent_next_file(a, u->path))
            u->path[0] = 0;
    }
    if (u->path[0])
        start(u);
}
