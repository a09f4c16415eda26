/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library to preload into real programs: at each tick of a timer it walks the interrupted stack twice, with our rows
 * and with libunwind, and compares the two frame by frame. At exit it writes "samples equal cut differ short direct" and
 * the first differences to $UNWIND_ORACLE (short: libunwind's, see below; direct: rules that came without a table). A stack of ours that is a proper beginning of libunwind's counts as cut; one of
 * libunwind's that stops short of ours (it did not find the root) is settled by the root: ours must have reached it.
 */
#define UNW_LOCAL_ONLY
#include <libunwind.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "unwind/direct.h"
#include "unwind/loaded.h"
#include "unwind/walk.h"

enum { DEPTH = 256, MODULES = 256, NOTES = 40 };

static struct module {
    uint64_t lo, hi, bias;
    struct unwind_table *table;
    char name[64];
} modules[MODULES];
static volatile int n_modules;
static char output[4096]; /* kept: programs like nginx clear their environment */
static unsigned samples, equal, cut, differ, theirs_short, direct;
static struct {
    uint64_t ours[6], theirs[6];
    int at, n_ours, n_theirs, end;
} notes[NOTES];

static int add(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct cfi_section s;
    struct module m = {.bias = info->dlpi_addr};

    if (n_modules == MODULES || !loaded_text(info, &m.lo, &m.hi))
        return 0;
    for (int i = 0; i < n_modules; i++)
        if (modules[i].lo == m.lo)
            return 0;
    if (!loaded_eh_frame(info, &s) || unwind_table_new(&s, 1, WALK_ARCH, &m.table) < 0)
        return 0;
    snprintf(m.name, sizeof m.name, "%.63s",
             strrchr(info->dlpi_name, '/') ? strrchr(info->dlpi_name, '/') + 1 : info->dlpi_name);
    modules[n_modules] = m;
    n_modules++;
    return 0;
}

/* As libwick's handler does: the table, and where there is none yet the object's own .eh_frame. */
static const struct unwind_rule *find(uint64_t pc)
{
    static struct unwind_rule room;

    for (int i = 0; i < n_modules; i++)
        if (pc >= modules[i].lo && pc < modules[i].hi)
            return unwind_find(modules[i].table, pc - modules[i].bias);
    if (!direct_rule(pc, WALK_ARCH, &room))
        return NULL;
    direct++;
    return &room;
}

static void note(const uint64_t *ours, int n_ours, const uint64_t *theirs, int n_theirs, int at, int end)
{
    int k = (int) differ + (int) cut - 1;

    if (k >= NOTES)
        return;
    notes[k].at = at;
    notes[k].n_ours = n_ours;
    notes[k].n_theirs = n_theirs;
    notes[k].end = end;
    for (int i = 0; i < 6; i++) {
        int j = at - 2 + i;

        notes[k].ours[i] = j >= 0 && j < n_ours ? ours[j] : 0;
        notes[k].theirs[i] = j >= 0 && j < n_theirs ? theirs[j] : 0;
    }
}

static void on_tick(int sig, siginfo_t *si, void *uc)
{
    static uint64_t ours[DEPTH], theirs[DEPTH];
    struct walk w = {0};
    unw_cursor_t c;
    unw_word_t ip;
    int n = 0, k = 0, end = WALK_STEPPED, i;

    walk_init_ucontext(&w, uc);
    while (n < DEPTH && end == WALK_STEPPED) {
        const struct unwind_rule *r;

        ours[n++] = w.pc;
        r = find(walk_lookup_pc(&w));
        end = r ? (int) walk_step(&w, r) : WALK_NO_RULE;
    }
    unw_init_local2(&c, (unw_context_t *) uc, UNW_INIT_SIGNAL_FRAME);
    do {
        unw_get_reg(&c, UNW_REG_IP, &ip);
        if (!ip)
            break;
        theirs[k++] = ip;
    } while (k < DEPTH && unw_step(&c) > 0);
    samples++;
    for (i = 0; i < n && i < k && ours[i] == theirs[i]; i++)
        ;
    if (i == n && i == k) {
        equal++;
    } else if (i == k && (end == WALK_ROOT || n == DEPTH)) {
        theirs_short++;
    } else if (i == n) {
        cut++;
        note(ours, n, theirs, k, i, end);
    } else {
        differ++;
        note(ours, n, theirs, k, i, end);
    }
}

static void *refresh(void *arg)
{
    struct timespec t = {0, 50000000};

    for (;;) {
        nanosleep(&t, NULL);
        dl_iterate_phdr(add, NULL);
    }
    return NULL;
}

static const char *where(uint64_t pc, char *buf, size_t n)
{
    for (int i = 0; i < n_modules; i++)
        if (pc >= modules[i].lo && pc < modules[i].hi) {
            snprintf(buf, n, "%s+0x%lx", modules[i].name, (unsigned long) (pc - modules[i].bias));
            return buf;
        }
    snprintf(buf, n, "0x%lx", (unsigned long) pc);
    return buf;
}

static void report(void)
{
    FILE *f;

    signal(SIGPROF, SIG_IGN);
    f = fopen(output, "a");
    if (!f || samples < 20)
        return;
    fprintf(f, "%u %u %u %u %u %u\n", samples, equal + theirs_short, cut, differ, theirs_short, direct);
    for (unsigned k = 0; k < cut + differ && k < NOTES; k++)
        for (int i = 0; i < 6; i++) {
            char a[128], b[128];

            if (notes[k].ours[i] || notes[k].theirs[i])
                fprintf(f, "# %d/%d/%d end %d: %s | %s\n", notes[k].at - 2 + i, notes[k].n_ours, notes[k].n_theirs,
                        notes[k].end, where(notes[k].ours[i], a, sizeof a), where(notes[k].theirs[i], b, sizeof b));
        }
    fclose(f);
}

__attribute__((constructor)) static void begin(void)
{
    struct sigaction sa = {.sa_sigaction = on_tick, .sa_flags = SA_SIGINFO | SA_RESTART};
    struct sigevent ev = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGPROF};
    struct itimerspec it = {{0, 250000}, {0, 250000}};
    sigset_t block;
    pthread_t t;
    timer_t timer;

    if (!getenv("UNWIND_ORACLE"))
        return;
    snprintf(output, sizeof output, "%s", getenv("UNWIND_ORACLE"));
    if (!getenv("UNWIND_DIRECT")) /* else no table at all: every rule is read from the objects */
        dl_iterate_phdr(add, NULL);
    sigemptyset(&block);
    sigaddset(&block, SIGPROF);
    pthread_sigmask(SIG_BLOCK, &block, NULL);
    if (!getenv("UNWIND_DIRECT"))
        pthread_create(&t, NULL, refresh, NULL);
    pthread_sigmask(SIG_UNBLOCK, &block, NULL);
    sigaction(SIGPROF, &sa, NULL);
    ev._sigev_un._tid = (pid_t) syscall(SYS_gettid);
    timer_create(CLOCK_MONOTONIC, &ev, &timer);
    timer_settime(timer, 0, &it, NULL);
    atexit(report);
}
