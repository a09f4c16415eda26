/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The unwinder on this very process: stacks walked by our tables are compared frame by frame with glibc's backtrace(),
 * which uses libgcc's own reader of .eh_frame.
 */
#include <execinfo.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "tap.h"
#include "unwind/loaded.h"
#include "unwind/walk.h"

enum { DEPTH = 64, MODULES = 64 };

struct module {
    uint64_t lo, hi, bias;
    struct unwind_table *table;
};

static struct module modules[MODULES];
static int n_modules;

static int add_module(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct cfi_section s;
    struct module *m = &modules[n_modules];

    if (n_modules == MODULES || !loaded_text(info, &m->lo, &m->hi) || !loaded_eh_frame(info, &s))
        return 0;
    m->bias = info->dlpi_addr;
    if (unwind_table_new(&s, 1, WALK_ARCH, &m->table) == 0)
        n_modules++;
    return 0;
}

static const struct unwind_rule *find(uint64_t pc)
{
    for (int i = 0; i < n_modules; i++)
        if (pc >= modules[i].lo && pc < modules[i].hi)
            return unwind_find(modules[i].table, pc - modules[i].bias);
    return NULL;
}

struct stack {
    uint64_t pc[DEPTH];
    int n, end;
};

static void walk_all(struct walk *w, struct stack *s)
{
    for (s->n = 0; s->n < DEPTH;) {
        const struct unwind_rule *r;

        s->pc[s->n++] = w->pc;
        r = find(walk_lookup_pc(w));
        s->end = r ? (int) walk_step(w, r) : WALK_NO_RULE;
        if (s->end != WALK_STEPPED)
            return;
    }
}

/* --- from a signal --- */
static struct stack seen, want;

__attribute__((no_sanitize("address"))) static void on_signal(int sig, siginfo_t *si, void *uc)
{
    struct walk w = {0};
    void *bt[DEPTH + 8];
    int n = backtrace(bt, DEPTH + 8), skip = 0;

    walk_init_ucontext(&w, uc);
    walk_all(&w, &seen);
    while (skip < n && (uint64_t) bt[skip] != seen.pc[0]) /* the handler's own frames */
        skip++;
    for (want.n = 0; skip < n && want.n < DEPTH; skip++)
        want.pc[want.n++] = (uint64_t) bt[skip];
}

static void check_equal(int least)
{
    ok(want.n >= least);
    eq_int(seen.end, WALK_ROOT);
    eq_int(seen.n, want.n);
    for (int i = 0; i < MIN(seen.n, want.n); i++)
        if (seen.pc[i] != want.pc[i])
            tap_fail("frame %d: %" PRIx64 ", not %" PRIx64, i, seen.pc[i], want.pc[i]);
}

__attribute__((noinline)) static int recurse(int depth)
{
    volatile char room[132];
    int r;

    room[0] = (char) depth;
    if (depth == 0) {
        raise(SIGUSR1);
        return 1;
    }
    r = recurse(depth - 1);
    return r + room[0];
}

static int compare(const void *a, const void *b)
{
    static int done;

    if (!done++)
        recurse(3);
    return *(const int *) a - *(const int *) b;
}

/* A realigned frame: its CFA and saved rbp are DWARF expressions. */
__attribute__((noinline)) static int realigned(int n)
{
    volatile char buf[64] __attribute__((aligned(64)));
    volatile char *more = __builtin_alloca((size_t) n);

    buf[n & 31] = 1;
    more[0] = 1;
    return recurse(2) + buf[1] + more[0];
}

static void test_signal(void)
{
    recurse(20);
    check_equal(23);
}

static void test_through_libc(void)
{
    int v[] = {3, 1, 2, 9, 4};

    qsort(v, 5, sizeof v[0], compare);
    check_equal(6);
}

static void test_realigned(void)
{
    realigned(40);
    check_equal(5);
}

static void *in_thread(void *arg)
{
    recurse(5);
    return NULL;
}

static void test_thread(void)
{
    pthread_t t;

    ok(pthread_create(&t, NULL, in_thread, NULL) == 0);
    pthread_join(t, NULL);
    check_equal(8);
}

/* --- a signal on a signal: the walk crosses a signal frame, and stacks --- */
static void on_outer(int sig, siginfo_t *si, void *uc)
{
    recurse(2);
}

static void test_signal_frame(void)
{
    struct sigaction sa = {.sa_sigaction = on_outer, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    stack_t alt = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16}, off = {.ss_flags = SS_DISABLE};

    sigaltstack(&alt, NULL);
    sigaction(SIGUSR2, &sa, NULL);
    raise(SIGUSR2);
    check_equal(9);
    sigaltstack(&off, NULL);
    free(alt.ss_sp);
}

/* --- tables from bytes --- */
#if defined(__x86_64__)
enum { ENTRY_CFA = 8 }; /* a call pushes its return address */
#else
enum { ENTRY_CFA = 0 };
#endif

static void test_gap(void)
{
    const struct unwind_rule *r = find((uint64_t) (uintptr_t) &recurse);

    ok(r && r->cfa == UNWIND_CFA_SP && r->cfa_off == ENTRY_CFA);
    ok(find((uint64_t) (uintptr_t) &modules) == NULL); /* data */
}

static int torture_table(void)
{
    struct unwind_table *t = NULL;
    struct cfi_section s = {0};
    static const uint8_t frame[] = {
        /* CIE: version 1, "zR", code 1, data -8, ra 16, enc absptr; def_cfa rsp+8; offset ra c-8 */
        0x14, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x00, 0x0c, 7, 8, 0x90, 1, 0, 0,
        /* FDE at 0x1fff0, 0x20 long, crossing a page; advance 1, offset 16, advance 0x18, offset 8 */
        0x20, 0, 0, 0, 0x1c, 0, 0, 0, 0xf0, 0xff, 1, 0, 0, 0, 0, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0x41, 0x0e, 16, 0x58,
        0x0e, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    int r;

    s = (struct cfi_section){frame, sizeof frame, 0x1000, false};
    r = unwind_table_new(&s, 1, CFI_X86_64, &t);
    if (r < 0)
        return r;
    eq_int(t->n_pages, 2);
    ok(unwind_find(t, 0x1ffef) == NULL);
    eq_int(unwind_find(t, 0x1fff0)->cfa_off, 8);
    eq_int(unwind_find(t, 0x1fff1)->cfa_off, 16);
    eq_int(unwind_find(t, 0x20000)->cfa_off, 16);
    eq_int(unwind_find(t, 0x20009)->cfa_off, 8);
    eq_int(unwind_find(t, 0x2000f)->cfa_off, 8);
    ok(unwind_find(t, 0x20010) == NULL);
    ok(unwind_find(t, 0x30000) == NULL);
    unwind_table_free(t);
    return 0;
}

int main(void)
{
    struct sigaction sa = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
    void *warm[4];

    backtrace(warm, 4);
    dl_iterate_phdr(add_module, NULL);
    sigaction(SIGUSR1, &sa, NULL);
    ok(n_modules >= 2);
    tap_run(test_signal);
    tap_run(test_through_libc);
    tap_run(test_realigned);
    tap_run(test_thread);
    tap_run(test_signal_frame);
    tap_run(test_gap);
    tap_torture_lax(torture_table, "arrays that cannot be trimmed stay as they are");
    for (int i = 0; i < n_modules; i++)
        unwind_table_free(modules[i].table);
    return tap_done();
}
