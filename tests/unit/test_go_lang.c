/* SPDX-License-Identifier: Apache-2.0 */
/* Go's labels and goroutines in made-up memory, as different versions keep them; places of thread-local variables. Real programs are
 * tests/integration/test_dump.py's and test_record_span.py's. */
#include <errno.h>

#include "agent/lang/go/go_code.h"
#include "agent/lang/go/go_goroutines.h"
#include "elf/tls_symbol.h"
#include "tap.h"

enum { BASE = 0x200000, SIZE = 8192, TP = BASE + 64, G = BASE + 128, M = BASE + 512, CURG = BASE + 1024 };

static uint8_t memory[SIZE];

static int read_memory(const struct proc_memory *m, uint64_t address, void *p, size_t n)
{
    if (address < BASE || address - BASE > SIZE || n > SIZE - (address - BASE))
        return -EFAULT;
    memcpy(p, memory + (address - BASE), n);
    return 0;
}

static const struct proc_memory mem = {.read = read_memory};

static void put(uint64_t address, uint64_t v)
{
    memcpy(memory + (address - BASE), &v, sizeof v);
}

static void put_string(uint64_t at, uint64_t text, const char *s)
{
    put(at, text);
    put(at + 8, strlen(s));
    memcpy(memory + (text - BASE), s, strlen(s));
}

static void put_goroutine(uint64_t labels)
{
    memset(memory, 0, sizeof memory);
    put(TP - 8, G);
    put(G + GO_G_M, M);
    put(M + 184, CURG);
    put(CURG + 352, labels);
}

static uint32_t read_labels(bool is_slice, struct arena *a, struct go_label *ret)
{
    struct go_runtime g = {.minor = is_slice ? 26 : 22, .g = -8, .curg = 184, .labels = 352, .is_slice = is_slice};

    return go_labels_read(&g, &mem, go_current(&g, &mem, TP, 0), a, ret);
}

static void test_slice(void)
{
    struct go_label v[GO_LABELS_MAX];
    uint64_t set = BASE + 3000, list = BASE + 3200;
    struct arena a;

    arena_init(&a, 1 << 20);
    put_goroutine(set);
    put(set, list);
    put(set + 8, 2);
    put_string(list, BASE + 4000, "endpoint");
    put_string(list + 16, BASE + 4100, "/cart");
    put_string(list + 32, BASE + 4200, "tenant");
    put_string(list + 48, BASE + 4300, "");
    eq_int(read_labels(true, &a, v), 2);
    eq_str(v[0].key, STR("endpoint"));
    eq_str(v[0].value, STR("/cart"));
    eq_str(v[1].key, STR("tenant"));
    eq_str(v[1].value, STR(""));
    put(set + 8, 1 << 30); /* more than there is memory: as many as can be read */
    ok(read_labels(true, &a, v) <= GO_LABELS_MAX);
    put(list, 0xdead0000); /* a key that is not there */
    put(set + 8, 2);
    eq_int(read_labels(true, &a, v), 1);
    put(CURG + 352, 0);
    eq_int(read_labels(true, &a, v), 0);
    put(M + 184, 0); /* no goroutine: the scheduler runs */
    eq_int(read_labels(true, &a, v), 0);
    arena_done(&a);
}

static void test_map(void)
{
    struct go_label v[GO_LABELS_MAX];
    uint64_t pointer = BASE + 3000, map = BASE + 3100, bucket = BASE + 3200;
    struct arena a;

    arena_init(&a, 1 << 20);
    put_goroutine(pointer);
    put(pointer, map);
    put(map, 2);
    put(map + 16, bucket);
    memory[bucket - BASE + 1] = 200; /* the second and the last place are taken */
    memory[bucket - BASE + 7] = 17;
    put_string(bucket + 8 + 16, BASE + 4000, "endpoint");
    put_string(bucket + 8 + 128 + 16, BASE + 4100, "/cart");
    put_string(bucket + 8 + 7 * 16, BASE + 4200, "tenant");
    put_string(bucket + 8 + 128 + 7 * 16, BASE + 4300, "acme");
    eq_int(read_labels(false, &a, v), 2);
    eq_str(v[0].key, STR("endpoint"));
    eq_str(v[0].value, STR("/cart"));
    eq_str(v[1].value, STR("acme"));
    memory[map - BASE + 9] = 60; /* 2^60 buckets */
    eq_int(read_labels(false, &a, v), 0);
    arena_done(&a);
}

static uint32_t seen;
static struct goroutine last;

static int on_goroutine(void *arg, const struct goroutine *g)
{
    last = *g;
    seen++;
    return 0;
}

static int list_goroutines(unsigned minor, struct arena *a)
{
    struct go_process p = {
        .runtime = {.minor = minor, .allgs = BASE, .status = 144, .n_tables = 2, .tables = {BASE + 2000, BASE + 2100}},
        .memory = mem};

    seen = 0;
    last = (struct goroutine){0};
    go_states_find(&p, a);
    return go_each_goroutine(&p, on_goroutine, NULL, NULL);
}

static void test_goroutines(void)
{
    struct arena a;

    arena_init(&a, 1 << 20);
    memset(memory, 0, sizeof memory);
    put(BASE, BASE + 32); /* allgs: one goroutine */
    put(BASE + 8, 1);
    put(BASE + 16, 1);
    put(BASE + 32, G);
    put(G, 0x10000); /* its stack */
    put(G + 8, 0x20000);
    put(G + 56, 0x18000); /* sp, pc */
    put(G + 64, 0x401000);
    put(G + 96, 0x18100); /* bp; of Go 1.24 and before at 104 */
    put(G + 104, 0x18200);
    put(G + 144, 4); /* waits */
    put(G + 152, 17);
    put(G + 168, 1234);
    put(G + 176, 2); /* for the second reason */
    put_string(BASE + 2100 + 16, BASE + 4000, "GC assist marking");
    put_string(BASE + 2100 + 32, BASE + 4100, "IO wait");
    eq_int(list_goroutines(26, &a), 0);
    eq_int(seen, 1);
    eq_int(last.id, 17);
    eq_str(last.state, STR("IO wait"));
    eq_int(last.wait_since_ns, 1234);
    ok(last.regs.sp == 0x18000 && last.regs.pc == 0x401000 && last.regs.fp == 0x18100 && !last.is_running);
    list_goroutines(24, &a);
    eq_int(last.regs.fp, 0x18200);
    put(G + 144, 0x1002); /* runs, and the collector looks at it */
    list_goroutines(26, &a);
    ok(seen == 1 && last.is_running);
    put(G + 144, 6); /* dead */
    list_goroutines(26, &a);
    eq_int(seen, 0);
    put(G + 144, 4);
    put(G + 56, 0x30000); /* sp outside of its stack */
    list_goroutines(26, &a);
    eq_int(seen, 0);
    put(BASE + 8, 1ull << 40); /* more than its capacity */
    eq_int(list_goroutines(26, &a), -ENOTSUP);
    eq_int(list_goroutines(18, &a), -ENOTSUP);
    arena_done(&a);
}

/* Distances from the thread pointer: of two variables in static blocks, and of the table of blocks. */
#if defined(__x86_64__)
enum { NEAR = -16, FAR_OFF = -72, DTV = 8 };
#else
enum { NEAR = 16, FAR_OFF = 72, DTV = 0 };
#endif

/* Where the BPF program finds the variable of a thread. */
static bool tls_place_address(const struct tls_place *p, const struct proc_memory *m, uint64_t thread_pointer,
                              uint64_t *ret)
{
    uint64_t dtv, block;

    if (p->is_static) {
        *ret = thread_pointer + (uint64_t) p->offset;
        return true;
    }
    if (!proc_memory_u64(m, thread_pointer + DTV, &dtv) || !proc_memory_u64(m, dtv + 16 * p->module, &block) ||
        block + 1 < 2)
        return false;
    *ret = block + (uint64_t) p->offset;
    return true;
}

static void test_places(void)
{
    struct tls_symbol s = {.value = 8, .exec = -24, .access = TLS_DESCRIPTOR, .slot = BASE + 2000};
    struct tls_place p;
    uint64_t at;

    memset(memory, 0, sizeof memory);
    ok(tls_symbol_place(&s, true, &mem, 0, &p) == 0 && p.is_static && p.offset == -24);
    eq_int(tls_symbol_place(&s, false, &mem, 0, &p), -EAGAIN); /* not relocated yet */
    put(s.slot, 0x7f0000001000);
    put(s.slot + 8, (uint64_t) FAR_OFF);
    ok(tls_symbol_place(&s, false, &mem, 0, &p) == 0 && p.is_static && p.offset == FAR_OFF);
    ok(tls_place_address(&p, &mem, TP, &at) && at == TP + FAR_OFF);
    put(s.slot + 8, BASE + 2100); /* {module 3, offset 16} */
    put(BASE + 2100, 3);
    put(BASE + 2108, 16);
    ok(tls_symbol_place(&s, false, &mem, 0, &p) == 0 && !p.is_static && p.module == 3 && p.offset == 16);
    put(TP + DTV, BASE + 2200);
    put(BASE + 2200 + 48, UINT64_MAX);
    ok(!tls_place_address(&p, &mem, TP, &at)); /* this thread has no block yet */
    put(BASE + 2200 + 48, BASE + 2400);
    ok(tls_place_address(&p, &mem, TP, &at) && at == BASE + 2416);
    s.access = TLS_INITIAL_EXEC;
    eq_int(tls_symbol_place(&s, false, &mem, 0, &p), -EAGAIN); /* no distance */
    put(s.slot, (uint64_t) NEAR);
    ok(tls_symbol_place(&s, false, &mem, 0, &p) == 0 && p.offset == NEAR);
    s.access = TLS_GENERAL;
    put(s.slot, 2);
    put(s.slot + 8, 32);
    ok(tls_symbol_place(&s, false, &mem, 0, &p) == 0 && p.module == 2 && p.offset == 32);
    s.slot = 1;
    eq_int(tls_symbol_place(&s, false, &mem, 0, &p), -EFAULT);
}

/* --- arm64's code, of Go 1.26 --- */
static const uint32_t systemstack[] = {0xf9400fe3, 0xaa0303fa, 0xf9401b84, 0xf9402485, 0xeb1c00bf, 0x540003a0, 0xf9400085,
                                       0xeb1c00bf, 0x54000340, 0xf9405c86, 0xeb1c00df, 0x540000a0, 0xf0000003, 0x913b4063};
static const uint32_t set_label[] = {0xf9400b90, 0xeb3063ff, 0x54000209, 0xf81e0ffe, 0xf81f83fd, 0xd10023fd, 0xf9000bfc,
                                     0x90000a7b, 0xb9498361, 0x34000081, 0xf940b381, 0x94001575, 0xa9000720, 0xf9400be1,
                                     0xf900b020, 0xf85f83fd, 0xf84207fe, 0xd65f03c0};
static const uint32_t allgadd[] = {0x3980001b, 0x91024002, 0x88dffc42, 0x34000982, 0xf90037e0, 0xd503201f, 0xd503201f,
                                   0x90000be0, 0x91214000, 0x97ff4671, 0xb0000abb, 0x913b837b, 0xa9400760, 0x91000421,
                                   0xb0000abb, 0xf9477b62, 0xeb01005f, 0x54000202};

static void test_arm64(void)
{
    struct elf_bytes stack = {(const uint8_t *) systemstack, sizeof systemstack, 0x886ec};
    struct elf_bytes label = {(const uint8_t *) set_label, sizeof set_label, 0x85160};
    struct elf_bytes add = {(const uint8_t *) allgadd, sizeof allgadd, 0x55c88};
    uint64_t v[8];

    eq_int(go_arm64_curg(stack), 184);
    eq_int(go_arm64_labels(label), 352);
    eq_int(go_arm64_status(add), 144);
    eq_int(go_arm64_addresses(add, false, v, 8), 3);
    eq_int(v[0], 0x1aaee0); /* the slice allgs: pointer, length, capacity */
    eq_int(v[1], 0x1aaee8);
    eq_int(v[2], 0x1aaef0);
    eq_int(go_arm64_addresses(add, true, v, 8), 2);
    eq_int(v[0], 0x1d1850); /* allglock */
    eq_int(go_arm64_addresses(add, false, v, 1), 1); /* no more than there is room */
    stack.n = 40;
    eq_int(go_arm64_curg(stack), 0);
    eq_int(go_arm64_labels(stack), 0);
}

int main(void)
{
    tap_run(test_arm64);
    tap_run(test_slice);
    tap_run(test_map);
    tap_run(test_goroutines);
    tap_run(test_places);
    return tap_done();
}
