/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The BPF reader of the unwind rows: a child of this process burns CPU below a known chain of calls; its sampled stacks must
 * be that chain, frame by frame, to the root. Pages are loaded only when a sample misses them. Needs the right to load BPF
 * programs; skipped elsewhere.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <link.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/bpf/unwind_abi.h"
#include "tap.h"
#include "unwind.skel.h"
#include "unwind/loaded.h"
#include "unwind/table.h"

enum { FILES = 32, DEPTH = 20 };

static struct {
    struct unwind_table *table;
    uint32_t rules;
} files[FILES];
static uint32_t n_files = 1, n_rules, n_rows;
static struct unwind_process process;
static struct unwind_bpf *bpf;
static unsigned whole, exact, other, missed;

/* --- the child --- */
static volatile uint64_t sink;

/* In a section of its own, so that its bounds are known: a sample beside it is of another depth. */
extern char __start_wick_hot[], __stop_wick_hot[];
__attribute__((noinline, section("wick_hot"))) static uint64_t hot(uint64_t n)
{
    uint64_t x = n;

    for (uint64_t i = 0; i < n; i++)
        x = x * 6364136223846793005ull + i;
    sink = x;
    return x;
}

__attribute__((noinline, optimize("omit-frame-pointer"))) static uint64_t deep(int d)
{
    volatile char room[40];
    uint64_t r;

    room[d] = 1;
    r = d ? deep(d - 1) : hot(10000000);
    sink += r + room[d];
    return r;
}

/* --- tables --- */
static int add_file(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct cfi_section s;
    struct unwind_mapping m = {.bias = info->dlpi_addr, .file = n_files};
    uint32_t i;

    if (n_files == FILES || !loaded_text(info, (uint64_t *) &m.start, (uint64_t *) &m.end) ||
        !loaded_eh_frame(info, &s) || unwind_table_new(&s, 1, CFI_X86_64, &files[n_files].table) < 0)
        return 0;
    files[n_files].rules = n_rules;
    for (uint32_t k = 0; k < files[n_files].table->n_rules; k++, n_rules++)
        bpf_map_update_elem(bpf_map__fd(bpf->maps.rules), &n_rules, &files[n_files].table->rules[k], BPF_ANY);
    n_files++;
    for (i = process.n++; i > 0 && process.v[i - 1].start > m.start; i--)
        process.v[i] = process.v[i - 1];
    process.v[i] = m;
    return 0;
}

/* What an agent does when a sample misses a page. */
static void load_page(uint32_t file, uint32_t page)
{
    struct unwind_table *t = files[file].table;
    uint64_t at = page - t->first_page;
    struct unwind_page_key key = {file, page};
    struct unwind_page_value v = {.rules = files[file].rules};
    static struct unwind_shard *shard;

    if (!shard) {
        shard = mmap(NULL, sizeof *shard, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(bpf->maps.shard_0), 0);
        if (shard == MAP_FAILED)
            return;
    }
    if (at < t->n_pages && n_rows + t->pages[at].n <= UNWIND_SHARD_ROWS) {
        v.row = n_rows;
        v.n = t->pages[at].n;
        memcpy(shard->rows + n_rows, t->rows + t->pages[at].row, v.n * sizeof *t->rows);
        n_rows += v.n;
    }
    bpf_map_update_elem(bpf_map__fd(bpf->maps.pages), &key, &v, BPF_ANY);
}

/* --- samples --- */
static bool in_hot(uint64_t pc)
{
    return pc >= (uint64_t) (uintptr_t) __start_wick_hot && pc < (uint64_t) (uintptr_t) __stop_wick_hot;
}

static int on_sample(void *arg, void *data, size_t size)
{
    struct unwind_sample *s = data;
    uint32_t i;

    if (s->end == UNWIND_END_NO_PAGE) {
        missed++;
        load_page(s->missing_file, s->missing_page);
        return 0;
    }
    if (s->n < 3 || !in_hot(s->pc[0])) {
        other++;
        return 0;
    }
    whole += s->end == UNWIND_END_ROOT;
    for (i = 3; i < s->n && s->pc[i] == s->pc[2]; i++) /* deep() returns to the same place in deep() */
        ;
    exact += s->end == UNWIND_END_ROOT && i == DEPTH + 2;
    if (s->end != UNWIND_END_ROOT || i != DEPTH + 2)
        tap_fail("a stack of %u frames ends with %u after %u of deep()", s->n, s->end, i - 1);
    return 0;
}

static void test_stacks(void)
{
    struct perf_event_attr attr = {.size = sizeof attr,
                                   .type = PERF_TYPE_SOFTWARE,
                                   .config = PERF_COUNT_SW_CPU_CLOCK,
                                   .freq = 1,
                                   .sample_freq = 499};
    struct ring_buffer *ring = ring_buffer__new(bpf_map__fd(bpf->maps.samples), on_sample, NULL, NULL);
    struct bpf_link *link;
    struct timespec pause = {0, 20000000};
    uint32_t pid;
    int fd;

    pid = (uint32_t) fork();
    if (pid == 0) {
        alarm(20);
        for (;;)
            deep(DEPTH);
    }
    bpf_map_update_elem(bpf_map__fd(bpf->maps.processes), &pid, &process, BPF_ANY);
    fd = (int) syscall(SYS_perf_event_open, &attr, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
    link = fd >= 0 ? bpf_program__attach_perf_event(bpf->progs.on_tick, fd) : NULL;
    ok(ring && link);
    for (int i = 0; ring && link && i < 400 && exact < 100; i++) {
        nanosleep(&pause, NULL);
        ring_buffer__consume(ring);
    }
    kill((pid_t) pid, SIGKILL);
    waitpid((pid_t) pid, NULL, 0);
    printf("# %u exact of %u whole, %u elsewhere, %u pages loaded\n", exact, whole, other, missed);
    ok(exact >= 100);
    eq_int(exact, whole);
    ok(missed >= 2 && missed < 50);
    bpf_link__destroy(link);
    ring_buffer__free(ring);
}

static int quiet(enum libbpf_print_level level, const char *fmt, va_list ap)
{
    return 0;
}

int main(void)
{
    libbpf_set_print(quiet);
    bpf = unwind_bpf__open();
    if (!bpf || unwind_bpf__load(bpf)) {
        tap_skip("test_stacks", "BPF programs may not be loaded here");
        return tap_done();
    }
    dl_iterate_phdr(add_file, NULL);
    tap_run(test_stacks);
    for (uint32_t i = 1; i < n_files; i++)
        unwind_table_free(files[i].table);
    unwind_bpf__destroy(bpf);
    return tap_done();
}
