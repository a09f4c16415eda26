/* SPDX-License-Identifier: Apache-2.0 */
/* Stops all threads of a process with PTRACE_SEIZE and PTRACE_INTERRUPT, and lets them continue. */
#include "agent/dump/dump_stop.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

#include "base/mem.h"

enum { ROUNDS = 10 }; /* of searching for threads that were started while others were stopped */

static bool known(const struct stopped *s, int tid)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->v[i].tid == tid)
            return true;
    return false;
}

/* Waits for the stop that PTRACE_INTERRUPT requested. A signal that arrives first is returned in *signal, so that it
 * can be delivered and is not lost. */
static bool wait_stop(int tid, int *signal)
{
    int status;

    for (;;) {
        if (waitpid(tid, &status, __WALL) < 0) {
            if (errno == EINTR)
                continue;
            return false;
        }
        if (!WIFSTOPPED(status))
            return false;
        *signal = status >> 16 == PTRACE_EVENT_STOP ? 0 : WSTOPSIG(status);
        return true;
    }
}

#if defined(__x86_64__)
static void set_regs(struct stopped_thread *t, const struct user_regs_struct *g)
{
    struct remote_regs *r = &t->regs;
    bool in_call = (int64_t) g->orig_rax >= 0;

    *r = (struct remote_regs){
        .pc = g->rip, .sp = g->rsp, .fp = g->rbp, .bx = g->rbx, .exact = !in_call, .is_leaf = true};
    r->leaf[0] = g->rax;
    r->leaf[1] = g->rdx;
    r->leaf[2] = g->rcx;
    r->leaf[4] = g->rsi;
    r->leaf[5] = g->rdi;
    r->leaf[8] = g->r8;
    r->leaf[9] = g->r9;
    r->leaf[10] = g->r10;
    r->leaf[11] = g->r11;
    r->leaf[12] = g->r12;
    r->leaf[13] = g->r13;
    r->leaf[14] = g->r14;
    r->leaf[15] = g->r15;
    t->thread_pointer = g->fs_base;
}
#else
static void set_regs(struct stopped_thread *t, const struct user_regs_struct *g)
{
    struct remote_regs *r = &t->regs;
    int call = -1;
    struct iovec v = {&call, sizeof call};

    ptrace(PTRACE_GETREGSET, t->tid, (void *) (intptr_t) NT_ARM_SYSTEM_CALL, &v);
    v = (struct iovec){&t->thread_pointer, sizeof t->thread_pointer};
    ptrace(PTRACE_GETREGSET, t->tid, (void *) (intptr_t) NT_ARM_TLS, &v);
    *r = (struct remote_regs){.pc = g->pc, .sp = g->sp, .fp = g->regs[29], .exact = call < 0, .is_leaf = true};
    memcpy(r->leaf, g->regs, 31 * sizeof *r->leaf);
}
#endif

static int stop_one(struct stopped_thread *t)
{
    struct user_regs_struct g = {0};
    struct iovec v = {&g, sizeof g};
    int signal = 0;

    if (ptrace(PTRACE_SEIZE, t->tid, NULL, NULL) < 0)
        return -errno;
    if (ptrace(PTRACE_INTERRUPT, t->tid, NULL, NULL) < 0 || !wait_stop(t->tid, &signal))
        return -ESRCH;
    t->stopped = true;
    if (signal) { /* deliver the signal, then wait for our stop */
        ptrace(PTRACE_CONT, t->tid, NULL, (void *) (intptr_t) signal);
        t->stopped = wait_stop(t->tid, &signal);
        if (!t->stopped)
            return -ESRCH;
    }
    if (ptrace(PTRACE_GETREGSET, t->tid, (void *) (intptr_t) NT_PRSTATUS, &v) < 0)
        return -errno;
    set_regs(t, &g);
    return 0;
}

/* Stops the threads that are not known yet. How many, or a negative errno. */
static int stop_round(int pid, bool only_list, struct stopped *s)
{
    char path[64];
    int found = 0, r = 0, first_error = 0;
    struct dirent *entry;
    DIR *d;

    snprintf(path, sizeof path, "/proc/%d/task", pid);
    d = opendir(path);
    if (!d)
        return -errno;
    while (r >= 0 && (entry = readdir(d))) {
        struct stopped_thread t = {0};
        uint64_t tid;

        if (str_to_u64(str_from(entry->d_name), 10, &tid) < 0 || tid > INT32_MAX || known(s, (int) tid))
            continue;
        r = array_reserve(s->v, s->cap, s->n + 1, DUMP_THREADS_MAX);
        if (r < 0)
            break;
        t.tid = (int) tid;
        if (!only_list)
            first_error = stop_one(&t) == -EPERM ? -EPERM : first_error;
        s->v[s->n++] = t;
        found++;
    }
    closedir(d);
    return r < 0 ? r : first_error ? first_error : found;
}

int stopped_take(int pid, bool only_list, struct stopped *ret, struct err *e)
{
    int r = 1;

    for (int i = 0; i < ROUNDS && r > 0; i++)
        r = stop_round(pid, only_list, ret);
    if (r == -EPERM)
        return err_set(
            e, r,
            "not permitted to stop process %d: it belongs to another user (CAP_SYS_PTRACE is required) or is already being traced",
            pid);
    if (r == -ENOENT || (r == 0 && !ret->n))
        return err_set(e, -ESRCH, "no such process: %d", pid);
    return r < 0 ? err_set(e, r, "cannot read process %d: %m", pid) : 0;
}

void stopped_release(struct stopped *s)
{
    for (size_t i = 0; i < s->n; i++) {
        if (s->v[i].stopped)
            ptrace(PTRACE_DETACH, s->v[i].tid, NULL, NULL);
        s->v[i].stopped = false;
    }
}

void stopped_done(struct stopped *s)
{
    stopped_release(s);
    mem_free(s->v);
    *s = (struct stopped){0};
}
