/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/symbol_process.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "symbol/dwarf_symbolizer.h"
#include "model/symbol_wire.h"
#include "elf/elf_symbols.h"
#include "tap.h"

/* This program is the child too: "serve" answers, "die" ends at the first request, "lie" answers nonsense, "sleep". */
static int child(const char *what)
{
    _cleanup_(symbolizer_freep) struct symbolizer *s = dwarf_symbolizer_new();
    char byte;

    if (strcmp(what, "serve") == 0)
        return symbol_process_confine(&(struct symbol_confine){.memory_max = (size_t) 8 << 30}) < 0 || symbol_process_serve(0, s) < 0;
    if (read(0, &byte, 1) != 1)
        return 1;
    if (strcmp(what, "lie") == 0)
        return send(0, "\5\0\0\0hello", 9, 0) != 9;
    if (strcmp(what, "sleep") == 0)
        pause();
    abort();
}

static struct symbolizer *start(const char *what, int timeout_ms)
{
    const char *const argv[] = {"/proc/self/exe", what, NULL};

    return symbol_process_new(argv, timeout_ms);
}

/* Known by its name: asked for by address. */
__attribute__((noinline)) static int landmark(int x)
{
    return x * 3 + 1;
}

static uint64_t address_of_landmark(void)
{
    _cleanup_(elf_freep) struct elf_file *f = NULL;
    struct elf_symbols s;
    const struct elf_symbol *x;
    uint64_t v = 0;

    if (elf_open("/proc/self/exe", &f, NULL) < 0 || elf_symbols_load(f, true, &s) < 0)
        return 0;
    x = elf_symbols_named(&s, STR("landmark"));
    v = x ? x->address : 0;
    elf_symbols_done(&s);
    return v;
}

static void test_answers(void)
{
    _cleanup_(symbolizer_freep) struct symbolizer *s = start("serve", 0);
    uint64_t at[2] = {address_of_landmark(), 1};
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    struct symbol_request q = {.path = {self, (uint32_t) n}, .addresses = at, .n_addresses = 2, .lines = true};
    struct err e = {0};

    ok(landmark(at[0] != 0) == 4);
    for (int i = 0; i < 3; i++) {
        _cleanup_(symbol_answer_freep) struct symbol_answer *a = NULL;

        eq_int(symbolizer_resolve(s, &q, &a, &e), 0);
        if (!a)
            break;
        eq_int(a->n_addresses, 2);
        eq_int(a->first[1], 1);
        eq_int(a->first[2], 1);
        eq_str(a->frames[0].function, STR("landmark"));
        ok(str_ends(a->frames[0].file, STR("test_symbol_process.c")) && a->frames[0].line > 0);
        eq_int(a->quality, SYMBOLS_LINES);
        ok(a->build_id.n > 0);
    }
    {
        struct symbol_answer *a = NULL;

        q.path = STR("/nonexistent/binary");
        eq_int(symbolizer_resolve(s, &q, &a, &e), -ENOENT);
        ok(strstr(e.message, "/nonexistent/binary"));
        q.path = STR("/etc/passwd");
        eq_int(symbolizer_resolve(s, &q, &a, &e), -ENOEXEC);
    }
}

static void expect_failure(const char *what, int code, const char *words)
{
    _cleanup_(symbolizer_freep) struct symbolizer *s = start(what, 300);
    struct symbol_request q = {.path = STR("/bin/x")};
    struct symbol_answer *a = NULL;
    struct err e = {0};

    for (int i = 0; i < 2; i++) {
        eq_int(symbolizer_resolve(s, &q, &a, &e), code);
        ok(strstr(e.message, words));
    }
    eq_int(symbolizer_resolve(s, &q, &a, &e), -EIO); /* not tried a third time */
    ok(strstr(e.message, "not retrying"));
}

static void test_failures(void)
{
    expect_failure("die", -EIO, "crashed on '/bin/x' (signal 6)");
    expect_failure("lie", -EIO, "invalid response");
    expect_failure("sleep", -ETIMEDOUT, "longer than 300 ms");
}

static void test_wire(void)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    _cleanup_(symbol_answer_freep) struct symbol_answer *a = NULL;
    _cleanup_(mem_freep) uint64_t *addresses = NULL;
    uint64_t at[] = {1, UINT64_MAX};
    uint32_t first[] = {0, 2, 2};
    struct symbol_frame frames[] = {{STR("f"), STR("_Z1fv"), STR("a.c"), 1, 2, 3, true}, {STR("g"), STR("g"), STR("")}};
    struct symbol_answer said = {frames, first, 2, SYMBOLS_NAMES, STR("abcd")};
    struct symbol_request q = {STR("path"), STR("id"), STR("shop"), at, 2, true}, got;

    eq_int(symbol_wire_put_request(&b, &q), 0);
    eq_int(symbol_wire_get_request(str_slice(buf_str(&b), 4, b.n), &got, &addresses), 0);
    eq_str(got.path, q.path);
    eq_str(got.build_id, q.build_id);
    ok(got.n_addresses == 2 && got.addresses[1] == UINT64_MAX && got.lines);
    buf_reset(&b);
    eq_int(symbol_wire_put_answer(&b, &said), 0);
    for (uint32_t n = 4; n < b.n; n++)
        ok(symbol_wire_get_answer(str_slice(buf_str(&b), 4, n), 2, &a, NULL) == -EBADMSG);
    eq_int(symbol_wire_get_answer(str_slice(buf_str(&b), 4, b.n), 3, &a, NULL), -EBADMSG);
    eq_int(symbol_wire_get_answer(str_slice(buf_str(&b), 4, b.n), 2, &a, NULL), 0);
    ok(a && a->first[1] == 2 && a->frames[0].inlined && a->frames[0].column == 2);
    if (a)
        eq_str(a->frames[0].system_name, STR("_Z1fv"));
}

/* A confined process reads, and does nothing else. */
static void test_confinement(void)
{
#if defined(__SANITIZE_ADDRESS__)
    tap_skip("confinement", "not with a sanitizer");
#else
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        int bad = symbol_process_confine(&(struct symbol_confine){.memory_max = (size_t) 8 << 30}) < 0;
        int fd = fd_open(AT_FDCWD, "/etc/passwd", O_RDONLY, 0);

        bad |= fd < 0;
        bad |= fd_open(AT_FDCWD, "/tmp/wick-test-confinement", O_WRONLY | O_CREAT, 0600) != -EPERM;
        bad |= socket(AF_INET, SOCK_STREAM, 0) >= 0 || errno != EPERM;
        bad |= fork() >= 0 || errno != EPERM;
        bad |= execl("/bin/true", "true", NULL) >= 0 || errno != EPERM;
        bad |= kill(getppid(), 0) == 0;
        _exit(bad);
    }
    ok(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
#endif
}

/* With folders named, files elsewhere cannot even be read. */
static void test_folders(void)
{
    static const char *const only[] = {"/usr", "/nonexistent", NULL};
    pid_t pid;
    int status;

    if (syscall(SYS_landlock_create_ruleset, NULL, 0, 1) < 1) {
        tap_skip("folders", "the kernel has no Landlock");
        return;
    }
    pid = fork();
    if (pid == 0) {
        int bad = symbol_process_confine(&(struct symbol_confine){(size_t) 8 << 30, only, false}) < 0;

        bad |= fd_open(AT_FDCWD, "/etc/passwd", O_RDONLY, 0) != -EACCES;
        bad |= fd_open(AT_FDCWD, "/usr", O_RDONLY | O_DIRECTORY, 0) < 0;
        _exit(bad);
    }
    ok(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return child(argv[1]);
    tap_run(test_wire);
    tap_run(test_answers);
    tap_run(test_failures);
    tap_run(test_confinement);
    tap_run(test_folders);
    return tap_done();
}
