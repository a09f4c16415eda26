/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of an agent, which watch one another: see agent_keep.h. Each has one thread. */
#include "host/agent_keep.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "host/agent_profiles.h"
#include "host/agent_rights.h"
#include "proc/proc_children.h"

/* Seconds. A process that gets no CPU time for a while, or whose machine is paused, is not taken for one that hangs: only
 * seconds in which the watching process ran are counted. */
enum { SILENT_MAX = 30, BEGIN_MAX = 180, DYING_MAX = 10, END_MAX = 3, PAUSE_MAX = 300, WATCH_MS = 1000 };
enum { EXIT_FINAL = 4, CHILDREN_MAX = 64 }; /* of a supervisor: it is not to be started again */

static struct beats {
    _Atomic uint32_t sampler, supervisor;
} * beats; /* shared; NULL: not watched */

/* What is known of a process that counts. */
struct keep_watch {
    uint32_t seen;
    unsigned silent; /* seconds */
    int64_t counted_ns;
};

/* True when another second has passed without a change. */
static bool is_silent(struct keep_watch *w, uint32_t now)
{
    if (now != w->seen) {
        w->seen = now;
        w->silent = 0;
    }
    if (clock_mono() - w->counted_ns < WATCH_MS * NS_PER_MS)
        return false;
    w->counted_ns = clock_mono();
    w->silent++;
    return true;
}

static bool is_hung(const struct keep_watch *w)
{
    return w->silent >= (w->seen ? (unsigned) SILENT_MAX : (unsigned) BEGIN_MAX);
}

void agent_keep_beat(void)
{
    if (beats)
        atomic_fetch_add(&beats->sampler, 1);
}

/* True when the other side of the pair is closed. */
static bool is_alone(int fd)
{
    struct pollfd p = {fd, 0, 0};

    return poll(&p, 1, 0) > 0 && p.revents & (POLLHUP | POLLERR);
}

bool agent_keep_must_go_on(int fd)
{
    if (is_alone(fd))
        return false;
    log_warn("the supervisor of the agent was killed; another one takes over");
    return true;
}

static void on_child(int sig)
{
    (void) sig; /* it interrupts ppoll() */
}

/* SIGCHLD is blocked except during ppoll(), so that no end of a child is missed. */
static void block_sigchld(sigset_t *ret_old)
{
    struct sigaction wake = {.sa_handler = on_child};
    sigset_t child;

    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigaction(SIGCHLD, &wake, NULL);
    sigprocmask(SIG_BLOCK, &child, ret_old);
}

static pid_t start_child(void)
{
    sigset_t child;
    pid_t pid;

    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    pid = fork();
    if (pid != 0)
        return pid;
    signal(SIGCHLD, SIG_DFL);
    sigprocmask(SIG_UNBLOCK, &child, NULL);
    return 0;
}

/* Waits for descriptors, a child's end, or a second. */
static int wait_for_any(struct pollfd *fds, nfds_t n)
{
    sigset_t mask;

    sigprocmask(SIG_BLOCK, NULL, &mask);
    sigdelset(&mask, SIGCHLD);
    return ppoll(fds, n, &(struct timespec){WATCH_MS / 1000, WATCH_MS % 1000 * NS_PER_MS}, &mask);
}

/* --- the supervisor --- */

/* Kills a sampler that hangs. True when it does not even end: then another one takes its place. */
static bool end_hung(pid_t sampler, struct keep_watch *w)
{
    if (!beats || !is_silent(w, atomic_load(&beats->sampler)))
        return false;
    if (w->silent == (w->seen ? (unsigned) SILENT_MAX : (unsigned) BEGIN_MAX)) {
        log_error("the agent has not responded for %u s; it is killed and started again", w->silent);
        kill(sampler, SIGKILL);
    }
    return is_hung(w) && w->silent >= (w->seen ? (unsigned) SILENT_MAX : (unsigned) BEGIN_MAX) + DYING_MAX;
}

/* The status of the sampler, which ends because the server is gone, or is killed. */
static int wait_for_end(pid_t sampler)
{
    int status = 0;

    for (unsigned i = 0; i < END_MAX * 10; i++) {
        if (waitpid(sampler, &status, WNOHANG) != 0)
            return status;
        poll(NULL, 0, 100);
    }
    kill(sampler, SIGKILL);
    return SIGKILL;
}

/* Answers the server's requests until the sampler ends; returns its status. */
static int answer_requests(int fd, struct agent_profiles *p, pid_t sampler)
{
    struct keep_watch w = {.counted_ns = clock_mono()};
    int status = 0;

    for (;;) {
        struct pollfd fds[1 + AGENT_PROFILES_MAX] = {{fd, POLLIN, 0}};
        pid_t ended = waitpid(sampler, &status, WNOHANG);

        if (ended == sampler || (ended < 0 && errno != EINTR))
            return status;
        if (beats)
            atomic_fetch_add(&beats->supervisor, 1);
        if (end_hung(sampler, &w))
            return SIGKILL;
        agent_profiles_tend(p);
        if (wait_for_any(fds, 1 + agent_profiles_poll(p, fds + 1)) <= 0)
            continue;
        if (fds[0].revents & ~POLLIN) /* the server has exited, and the sampler will */
            return wait_for_end(sampler);
        if (fds[0].revents)
            agent_profiles_begin(p, fd);
    }
}

void agent_keep(int fd, int (*record)(uint32_t pid, uint32_t seconds))
{
    struct agent_profiles profiles = {.record = record};
    sigset_t old;

    block_sigchld(&old);
    for (unsigned pause_s = 1;; pause_s = MIN(pause_s * 2, (unsigned) PAUSE_MAX)) {
        int64_t begun = clock_mono();
        int status = 0;
        pid_t pid;

        if (beats)
            atomic_store(&beats->sampler, 0);
        pid = start_child();
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGTERM);
            return;
        }
        if (pid > 0)
            status = answer_requests(fd, &profiles, pid);
        if (pid < 0 || WIFEXITED(status) || is_alone(fd)) /* a child that exits by itself has reported the reason */
            _exit(EXIT_FINAL);
        pause_s = clock_mono() - begun > 60 * NS_PER_S ? 1 : pause_s;
        log_warn("the agent was killed by signal %d; restarting it in %u s", WTERMSIG(status), pause_s);
        for (unsigned i = 0; i < pause_s && !is_alone(fd); i++) {
            if (beats)
                atomic_fetch_add(&beats->supervisor, 1);
            sleep(1);
        }
    }
}

/* --- the starter --- */

struct keep_ends {
    int signal; /* that killed one of them; 0: none */
    bool final; /* one ended by itself, and has reported why */
};

/* True when no child is left. Those of a process that was killed become children of this one: also processes that read
 * binaries, whose exit status says nothing. */
static bool reap(pid_t supervisor, struct keep_ends *e)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (WIFSIGNALED(status))
            e->signal = WTERMSIG(status);
        else if (WEXITSTATUS(status) == EXIT_FINAL || (pid == supervisor && WEXITSTATUS(status) != 0))
            e->final = true;
    }
    return pid < 0 && errno == ECHILD;
}

static void kill_children(void)
{
    pid_t pids[CHILDREN_MAX] = {getpid()};
    size_t n = 1;

    proc_add_descendants(pids, &n, CHILDREN_MAX);
    for (size_t i = 1; i < n; i++)
        kill(pids[i], SIGKILL);
}

/* The supervisor hangs: it may have been replaced, so that its process id is not known. All are started again. */
static void watch_supervisor(struct keep_watch *w)
{
    if (!beats || !is_silent(w, atomic_load(&beats->supervisor)) || !is_hung(w))
        return;
    log_error("the supervisor of the agent has not responded for %u s; the agent is killed and started again",
              w->silent);
    kill_children();
    w->silent = 0;
}

static void wait_for_all(int fd, pid_t supervisor, struct keep_ends *e)
{
    struct keep_watch w = {.counted_ns = clock_mono()};
    int64_t alone = 0;

    while (!reap(supervisor, e)) {
        struct pollfd p = {fd, 0, 0};

        if (alone) /* poll() would return at once */
            wait_for_any(NULL, 0);
        else
            wait_for_any(&p, 1);
        if (!alone && is_alone(fd))
            alone = clock_mono();
        if (alone && clock_mono() - alone > END_MAX * NS_PER_S)
            kill_children();
        else
            watch_supervisor(&w);
    }
}

void agent_keep_start(int fd, bool all_rights)
{
    sigset_t old;

    beats = mmap(NULL, sizeof *beats, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (beats == MAP_FAILED)
        beats = NULL;
    if ((!all_rights && agent_rights_starter() < 0) || prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
        return; /* without a starter */
    block_sigchld(&old);
    for (unsigned pause_s = 1;; pause_s = MIN(pause_s * 2, (unsigned) PAUSE_MAX)) {
        int64_t begun = clock_mono();
        struct keep_ends ends = {0};
        pid_t pid = start_child();

        if (pid == 0) {
            prctl(PR_SET_CHILD_SUBREAPER, 0);
            return;
        }
        if (pid < 0)
            _exit(1);
        wait_for_all(fd, pid, &ends);
        if (ends.final || !ends.signal || is_alone(fd))
            _exit(0);
        pause_s = clock_mono() - begun > 60 * NS_PER_S ? 1 : pause_s;
        log_warn("all processes of the agent were killed, by signal %d at last; starting it again in %u s", ends.signal,
                 pause_s);
        sleep(pause_s);
    }
}
