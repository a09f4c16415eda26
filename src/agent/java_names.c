/* SPDX-License-Identifier: Apache-2.0 */
/* The process that asks Java programs for the names of their code (java_names.h). */
#include "agent/java_names.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/process.h"
#include "base/clock.h"
#include "base/fd.h"
#include "proc/java_attach.h"

enum { REQUEST_SECONDS = 30 };
enum { DOUBLINGS = 6 }; /* it is asked again after 1 second, 2, 4, … 64: most code is compiled early */

static int requests = -1; /* a pipe of pids */

/* In a process of its own: becomes the user of the Java program, so that it can do nothing that this user cannot. */
static int ask_one(uint32_t pid)
{
    int r = java_attach_become_owner((int) pid);

    alarm(REQUEST_SECONDS);
    return r < 0 ? r : java_attach_perfmap((int) pid, NULL);
}

static void serve(int fd)
{
    uint32_t pid;

    while (read(fd, &pid, sizeof pid) == sizeof pid) {
        pid_t child = fork();

        if (child == 0)
            _exit(ask_one(pid) < 0);
        if (child > 0)
            waitpid(child, NULL, 0);
    }
}

int java_names_start(struct err *e)
{
    int fds[2];
    pid_t pid;

    if (requests >= 0)
        return 0;
    if (pipe2(fds, O_CLOEXEC) < 0)
        return err_set(e, -errno, "cannot create a pipe: %m");
    pid = fork();
    if (pid < 0) {
        fd_close(fds[0]);
        fd_close(fds[1]);
        return err_set(e, -errno, "cannot start a process: %m");
    }
    if (pid == 0) {
        signal(SIGINT, SIG_IGN); /* it ends when the pipe is closed */
        close(fds[1]);
        serve(fds[0]);
        _exit(0);
    }
    fd_close(fds[0]);
    fcntl(fds[1], F_SETFL, O_NONBLOCK);
    requests = fds[1];
    return 0;
}

bool java_names_is_java(const struct process *p)
{
    for (uint32_t i = 0; i < p->n_mappings; i++) {
        const char *slash = p->mappings[i].path ? strrchr(p->mappings[i].path, '/') : NULL;

        if (slash && strcmp(slash, "/libjvm.so") == 0)
            return true;
    }
    return false;
}

void java_names_ask(struct process *p)
{
    int64_t now = clock_mono();
    ssize_t n;

    if (requests < 0 || p->exited || now - p->java_asked_ns < NS_PER_S << MIN(p->java_asks, DOUBLINGS))
        return;
    p->java_asked_ns = now;
    if (!java_names_is_java(p))
        return;
    p->java_asks = (uint8_t) MIN(p->java_asks + 1, DOUBLINGS + 1);
    n = write(requests, &p->pid, sizeof p->pid); /* a full pipe: it is asked later */
    (void) n;
}
