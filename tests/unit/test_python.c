/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPython's structures in made-up memory: 3.12 by table and 3.14 by the offsets that it tells, because no 3.14 is on most
 * machines yet; real interpreters are tests/integration/test_dump.py's. Line tables by hand; test_python_lines.py takes them
 * from interpreters.
 */
#include <errno.h>

#include "agent/lang/python/python.h"
#include "agent/lang/python/python_lines.h"
#include "tap.h"

enum { BASE = 0x100000, SIZE = 65536 };

static uint8_t memory[SIZE];
static uint64_t brk_at;

static int read_memory(const struct proc_memory *m, uint64_t address, void *p, size_t n)
{
    if (address < BASE || address - BASE > SIZE || n > SIZE - (address - BASE))
        return -EFAULT;
    memcpy(p, memory + (address - BASE), n);
    return 0;
}

static void put(uint64_t address, size_t off, uint64_t v, size_t n)
{
    memcpy(memory + (address - BASE) + off, &v, n);
}

static uint64_t make(size_t n)
{
    uint64_t at = brk_at;

    brk_at += ALIGN_UP(n, 16);
    return at;
}

/* A str as builds with the GIL have it (interned in 2 bits) or others (in 8); the bits after it are never set by CPython. */
static uint64_t make_str(const void *chars, size_t n, unsigned kind, bool ascii, bool wide_state)
{
    uint64_t s = make(64 + n * kind);
    unsigned shift = wide_state ? 8 : 2;

    put(s, 0, 1, 8); /* references */
    put(s, 16, n, 8);
    put(s, 32,
        1 | (uint64_t) kind << shift | 1ull << (shift + 3) | (uint64_t) ascii << (shift + 4) |
            0x7cbf2b65ull << (shift + 6),
        4);
    memcpy(memory + (s - BASE) + (ascii ? 40 : 56), chars, n * kind);
    return s;
}

static uint64_t make_bytes(const void *p, size_t n)
{
    uint64_t b = make(40 + n);

    put(b, 0, 1, 8);
    put(b, 16, n, 8);
    memcpy(memory + (b - BASE) + 32, p, n);
    return b;
}

/* firstlineno at 68; filename, name, qualname, linetable from 112 on. */
static uint64_t make_code(uint64_t file, uint64_t name, uint64_t qualname, unsigned first)
{
    /* 2 units of line +0, 3 units of no line, 1 unit of line +2, 8 units of line -1 */
    static const uint8_t table[] = {0x80 | 10 << 3 | 1, 1, 2, 0x80 | 15 << 3 | 2, 0x80 | 12 << 3, 1, 2,
                                    0x80 | 13 << 3 | 7, 3};
    uint64_t c = make(256);

    put(c, 0, 1, 8);
    put(c, 68, first, 4);
    put(c, 112, file, 8);
    put(c, 120, name, 8);
    put(c, 128, qualname, 8);
    put(c, 136, make_bytes(table, sizeof table), 8);
    return c;
}

static void reset(void)
{
    memset(memory, 0, sizeof memory);
    brk_at = BASE;
}

static struct proc_memory m = {.read = read_memory};

struct seen {
    uint64_t state[8], id[8];
    unsigned n;
};

static int see(void *data, uint64_t state, uint64_t id)
{
    struct seen *s = data;

    s->state[s->n] = state;
    s->id[s->n++] = id;
    return 0;
}

static void check_frame(const struct python *py, const struct python_frame *f, const char *name, int64_t line)
{
    struct python_code c;
    struct arena a;

    arena_init(&a, 1 << 20);
    eq_int(python_code_read(py, &m, f->code, &a, &c), 0);
    eq_str(c.name, str_from(name));
    eq_int(python_code_line(py, &c, f->instr), line);
    arena_done(&a);
}

static void test_3_12(void)
{
    uint64_t runtime, interp, a, b, frame[3], shim, cframe, code, file, name, wide;
    static const uint16_t greek[] = {0x3b1, 0x3b2};
    struct python_image image = {.minor = 12};
    struct python_frame f[8];
    struct seen s = {0};
    struct python py;
    uint32_t n;

    reset();
    image.runtime = runtime = make(1024);
    interp = make(256);
    a = make(512);
    b = make(512);
    cframe = make(16);
    put(runtime, 40, interp, 8);
    put(interp, 72, a, 8);
    put(a, 8, b, 8);
    put(a, 136, 0x7001, 8);
    put(b, 136, 0x7002, 8);
    put(a, 56, cframe, 8);
    file = make_str("f.py", 4, 1, true, false);
    name = make_str("run", 3, 1, true, false);
    wide = make_str(greek, 2, 2, false, false);
    code = make_code(file, name, wide, 100);
    shim = make(80);
    for (int i = 0; i < 3; i++) {
        frame[i] = make(80);
        put(frame[i], 0, code, 8);
        put(frame[i], 56, code + 192 + (uint64_t) i * 4, 8);
    }
    put(cframe, 0, frame[0], 8);
    put(frame[0], 8, frame[1], 8);
    put(frame[1], 8, shim, 8);
    put(shim, 70, 3, 1);
    put(shim, 8, frame[2], 8);
    eq_int(python_attach(&m, &image, 0, &py, NULL), 0);
    eq_int(python_each_thread(&py, &m, see, &s), 0);
    eq_int(s.n, 2);
    eq_int(s.id[0], 0x7001);
    eq_int(s.id[1], 0x7002);
    eq_int(python_frames(&py, &m, a, f, 8, &n), 0);
    eq_int(n, 3);
    ok(!f[0].entry && f[1].entry && f[2].entry);
    check_frame(&py, &f[0], "\xce\xb1\xce\xb2", 100);
    check_frame(&py, &f[1], "\xce\xb1\xce\xb2", 0); /* no line */
    put(frame[2], 56, code + 192 + 10, 8);
    eq_int(python_frames(&py, &m, a, f, 8, &n), 0);
    check_frame(&py, &f[2], "\xce\xb1\xce\xb2", 102);
    eq_int(python_frames(&py, &m, a, f, 2, &n), 1); /* more than fit */
    put(frame[1], 8, frame[0], 8);                  /* a loop ends */
    eq_int(python_frames(&py, &m, a, f, 8, &n), 1);
    eq_int(n, 2);
    put(b, 8, a, 8);
    eq_int(python_each_thread(&py, &m, see, &s), -ELOOP);
    put(b, 8, 0, 8);
    put(frame[1], 8, 0xdead0, 8);
    eq_int(python_frames(&py, &m, a, f, 8, &n), 1);
    eq_int(n, 2);
    ok(python_frames(&py, &m, b, f, 8, &n) < 0); /* a thread without a C frame */
}

static void debug_offsets(uint64_t runtime, const uint64_t *v, size_t n)
{
    memcpy(memory + (runtime - BASE), "xdebugpy", 8);
    for (size_t i = 0; i + 1 < n; i += 2)
        put(runtime, v[i], v[i + 1], 8);
}

static void check_3_14(bool no_gil)
{
    static const uint64_t numbers[] = {
        8,   0x030e02f0, 16,  0,   40,  700,          /* version, free_threaded, interpreters_head */
        64,  24,         72,  32,                     /* next, threads_head */
        192, 8,          208, 72,  216, 152,          /* thread: next, current_frame, thread_id */
        256, 8,          264, 0,   272, 56,  288, 74, /* frame: previous, executable, instr_ptr, owner */
        320, 112,        328, 120, 336, 128, 344, 136, 352, 68, 384, 208, /* code */
        600, 16,         608, 32,  624, 32,  632, 16,  640, 40,           /* bytes, str */
    };
    uint64_t runtime, interp, a, frame, inner, shim, code;
    struct python_image image = {.minor = 0};
    struct python_frame f[8];
    struct seen s = {0};
    struct python py;
    struct err e = {0};
    uint32_t n;

    reset();
    image.runtime = runtime = make(1024);
    debug_offsets(runtime, numbers, ARRAY_SIZE(numbers));
    put(runtime, 16, no_gil, 8);
    interp = make(256);
    a = make(512);
    code = make_code(make_str("f.py", 4, 1, true, no_gil), make_str("g", 1, 1, true, no_gil),
                     make_str("C.g", 3, 1, true, no_gil), 10);
    frame = make(88);
    inner = make(88);
    shim = make(88);
    put(runtime, 700, interp, 8);
    put(interp, 32, a, 8);
    put(a, 152, 0x7001, 8);
    put(a, 72, inner, 8);
    put(inner, 0, code | 1, 8); /* a borrowed reference is tagged */
    put(inner, 56, code + 208, 8);
    put(inner, 8, frame, 8);
    put(frame, 0, code, 8);
    put(frame, 56, code + 208 + 2, 8);
    put(frame, 8, shim, 8);
    put(shim, 74, 3, 1);
    put(shim, 56, BASE + 0x1234, 8);
    eq_int(python_attach(&m, &image, 0, &py, &e), 0);
    eq_int(py.version, 0x030e02f0);
    eq_int(python_each_thread(&py, &m, see, &s), 0);
    eq_int(s.n, 1);
    eq_int(python_frames(&py, &m, a, f, 8, &n), 0);
    eq_int(n, 2);
    ok(!f[0].entry && f[1].entry);
    eq_int(f[0].instr, 0);
    check_frame(&py, &f[0], "C.g", 10);
    ok(python_loops_wanted(&py)); /* no symbol */
    eq_int(python_shim_instr(&py, &m, &shim), 0);
    eq_int(shim, BASE + 0x1234);
    put(runtime, 8, 0x030f00f0, 8);
    eq_int(python_attach(&m, &image, 0, &py, &e), -ENOTSUP);
    ok(strstr(e.message, "3.15") != NULL);
    put(runtime, 8, 0x030e00f0, 8);
    put(runtime, 264, 1 << 20, 8); /* an offset that cannot be */
    ok(python_attach(&m, &image, 0, &py, &e) < 0);
}

static void test_3_14(void)
{
    check_3_14(false);
    check_3_14(true);
}

/* A code object that was freed, or replaced by another one, has no name. */
static void test_freed(void)
{
    struct python_image image = {.minor = 12};
    uint64_t runtime, code, file, name, other, content;
    struct python_code c;
    struct python py;
    struct arena a;

    reset();
    arena_init(&a, 1 << 20);
    image.runtime = runtime = make(1024);
    file = make_str("f.py", 4, 1, true, false);
    name = make_str("run", 3, 1, true, false);
    other = make_str("win", 3, 1, true, false);
    code = make_code(file, name, name, 100);
    eq_int(python_attach(&m, &image, 0, &py, NULL), 0);
    content = python_content(&py, &m, code);
    eq_int(python_code_read_if(&py, &m, code, content, &a, &c), 0);
    eq_str(c.name, STR("run"));
    eq_int(python_code_read_if(&py, &m, code, 0, &a, &c), -EBADMSG);
    put(code, 92, 77, 4); /* its number: another one at the same address, with the same name */
    eq_int(python_code_read_if(&py, &m, code, content, &a, &c), -EBADMSG);
    put(code, 92, 0, 4);
    put(code, 128, other, 8);
    eq_int(python_code_read_if(&py, &m, code, content, &a, &c), -EBADMSG);
    put(code, 128, name, 8);
    put(code, 0, 0, 8); /* freed */
    eq_int(python_code_read_if(&py, &m, code, content, &a, &c), -EBADMSG);
    put(code, 0, 0x7f1122334450, 8); /* and in the allocator's list */
    eq_int(python_code_read_if(&py, &m, code, content, &a, &c), -EBADMSG);
    put(code, 0, UINT32_MAX, 8); /* immortal */
    eq_int(python_code_read_if(&py, &m, code, content, &a, &c), 0);
    put(name, 0, 0, 8);
    eq_int(python_code_read_if(&py, &m, code, content, &a, &c), -EBADMSG);
    put(name, 0, 1, 8);
    py.types.str = 0x5500; /* the name is no str */
    eq_int(python_code_read_if(&py, &m, code, content, &a, &c), -EBADMSG);
    put(name, 8, 0x5500, 8);
    put(file, 8, 0x5500, 8);
    eq_int(python_code_read_if(&py, &m, code, content, &a, &c), 0);
    arena_done(&a);
}

/* Before 3.12, the text decides between objects that are otherwise the same. */
static void test_same_but_for_text(void)
{
    struct python_image image = {.minor = 11};
    uint64_t runtime, code, content, file;
    struct python py;

    reset();
    image.runtime = runtime = make(1024);
    eq_int(python_attach(&m, &image, 0, &py, NULL), 0);
    file = make_str("f.py", 4, 1, true, false);
    code = make_code(file, make_str("run", 3, 1, true, false), make_str("run", 3, 1, true, false), 100);
    content = python_content(&py, &m, code);
    put(file, 48, 'g', 1); /* where 3.11 has the characters of an ASCII str */
    ok(content && python_content(&py, &m, code) != content);
}

/* Functions that mention an address, as copies of the interpreter's loop do with a shim's instruction; in this program. */
static const char mark[16] = "mark";
extern const char __executable_start[];

static __attribute__((noinline)) const char *first_copy(int n)
{
    __asm__ volatile("" : "+r"(n));
    return n < -3 ? NULL : mark + 2;
}

static __attribute__((noinline)) const char *second_copy(int n)
{
    __asm__ volatile("" : "+r"(n));
    return n > 3 ? NULL : mark + 2;
}

static __attribute__((noinline)) const char *no_copy(int n)
{
    __asm__ volatile("" : "+r"(n));
    return n > 3 ? NULL : mark + 5;
}

static void test_loops(void)
{
    _cleanup_(elf_freep) struct elf_file *f = NULL;
    uint64_t base = (uint64_t) (uintptr_t) __executable_start;
    struct python_loops l;

    ok(first_copy(1) == mark + 2 && second_copy(1) == mark + 2 && no_copy(1) == mark + 5);
    eq_int(elf_open("/proc/self/exe", &f, NULL), 0);
    if (!f || f->machine != EM_X86_64)
        return;
    base = f->type == ET_DYN ? base : 0;
    python_loops_find(f, (uint64_t) (uintptr_t) (mark + 2) - base, &l);
    ok(l.n >= 2);
    ok(python_loops_have(&l, (uint64_t) (uintptr_t) first_copy - base));
    ok(python_loops_have(&l, (uint64_t) (uintptr_t) second_copy - base));
    ok(!python_loops_have(&l, (uint64_t) (uintptr_t) no_copy - base));
    ok(!python_loops_have(&l, 0));
}

static void test_lines(void)
{
    /* 3.9: after 4 bytes +2, after 2 more -1 */
    static const char lnotab[] = {4, 2, 2, (char) 0xff};
    /* 3.10: 4 bytes +0, 2 bytes none, 6 bytes +3 */
    static const char pairs[] = {4, 0, 2, (char) 0x80, 6, 3};
    static const struct {
        unsigned minor;
        int64_t instr, line;
    } cases[] = {{9, -1, 5}, {9, 0, 5},  {9, 3, 5},  {9, 4, 7},  {9, 6, 6},   {9, 100, 6},
                 {10, 0, 5}, {10, 2, 5}, {10, 4, 0}, {10, 6, 8}, {10, 10, 8}, {10, 12, 5}};

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct str t = cases[i].minor == 9 ? (struct str){lnotab, sizeof lnotab} : (struct str){pairs, sizeof pairs};

        eq_int(python_line(cases[i].minor, t, 5, cases[i].instr), cases[i].line);
    }
    eq_int(python_line(12, STR("\x05\x05"), 5, 0), 5); /* damaged */
    eq_int(python_line(12, STR("\xf0"), 5, 0), 5);     /* cut short in an entry of the long form */
}

int main(void)
{
    tap_run(test_3_12);
    tap_run(test_3_14);
    tap_run(test_freed);
    tap_run(test_same_but_for_text);
    tap_run(test_loops);
    tap_run(test_lines);
    return tap_done();
}
