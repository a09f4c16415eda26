/* SPDX-License-Identifier: Apache-2.0 */
/* The confined process that reads binaries for the agent: this program is also that process, honest or not. */
#include "agent/reader/file_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/names.h"
#include "agent/object.h"
#include "base/fd.h"
#include "base/fd_pass.h"
#include "base/sealed.h"
#include "model/symbol_wire.h"
#include "symbol/symbol_process.h"
#include "tap.h"
#include "unwind/elf_table.h"
#include "unwind/table_share.h"

/* Answers honestly, except about files whose path has one of these names. */
static int child(const char *what)
{
    struct symbol_confine c = {.memory_max = (size_t) 8 << 30, .no_files = true};
    static struct {
        struct file_request q;
        uint64_t addresses[FILE_ADDRESSES_MAX];
    } in;

    if (strcmp(what, "mute") == 0)
        return 1;
    if (symbol_process_confine(&c) < 0)
        return 1;
    if (strcmp(what, "serve") == 0)
        return file_reader_serve(0) < 0;
    for (;;) {
        struct file_answer a;
        struct iovec io = {&a, sizeof a};
        int fds[2], out = -1;

        if (fd_pass_receive(0, &in, sizeof in, fds, 2, 0) <= 0)
            return 0;
        in.q.addresses = in.addresses;
        file_work(&in.q, fds, &a, &out);
        if (strstr(in.q.path, "crash"))
            abort();
        if (strstr(in.q.path, "lie"))
            memset(&a.facts, 'x', sizeof a.facts);
        if (strstr(in.q.path, "unsealed")) {
            fd_close(out);
            out = memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        }
        fd_pass_send(0, &io, 1, &out, out >= 0);
        fd_close(out);
        fd_close(fds[0]);
        fd_close(fds[1]);
    }
}

static struct file_reader *start(const char *what)
{
    const char *const argv[] = {"/proc/self/exe", what, NULL};
    struct file_reader *r = NULL;
    struct err e = {0};

    return file_reader_new(argv, &r, &e) < 0 ? NULL : r;
}

static int self(void)
{
    return fd_open(AT_FDCWD, "/proc/self/exe", O_RDONLY, 0);
}

__attribute__((noinline)) int landmark_function(int x);
__attribute__((noinline)) int landmark_function(int x)
{
    return x * 3 + 1;
}

/* Everything that an object needs, as the process returns it and as it is read here. */
static void compare(struct objects *here, struct objects *there)
{
    struct object *a = NULL, *b = NULL;
    const struct object_key none = {0};
    const struct object_name *x, *y;
    struct unwind_table *t, *u;

    ok(objects_add(here, self(), "/proc/self/exe", &none, &a, NULL) == 0);
    ok(objects_add(there, self(), "/proc/self/exe", &none, &b, NULL) == 0);
    ok(a && b && strcmp(object_id(a), object_id(b)) == 0 && object_id(a)[0]);
    eq_int(a->n_segments, b->n_segments);
    ok(memcmp(a->segments, b->segments, a->n_segments * sizeof *a->segments) == 0);
    eq_int((int64_t) a->entry, (int64_t) b->entry);
    t = objects_table(here, a, 1);
    u = objects_table(there, b, 1);
    ok(t && u && t->n_rows == u->n_rows && t->n_rules == u->n_rules && t->n_pages == u->n_pages && t->n_rows > 1000);
    ok(memcmp(t->rows, u->rows, t->n_rows * sizeof *t->rows) == 0);
    ok(memcmp(t->rules, u->rules, t->n_rules * sizeof *t->rules) == 0);
    for (uint64_t at = a->segments[0].vaddr; at < a->segments[0].vaddr + (4 << 20); at += 4099) {
        object_names_want(a, at);
        object_names_want(b, at);
    }
    object_names_want(b, a->entry);
    object_names_want(a, a->entry);
    object_names_resolve(a);
    object_names_resolve(b);
    x = object_names_find(a, a->entry);
    y = object_names_find(b, a->entry);
    ok(x && y && x->n_frames == 1 && y->n_frames == 1);
    if (x && y && x->n_frames && y->n_frames) {
        eq_str(x->frames[0].name, y->frames[0].name);
        eq_str(y->frames[0].name, STR("_start"));
    }
    object_unref(a);
    object_unref(b);
}

static void test_same(void)
{
    _cleanup_(file_reader_freep) struct file_reader *r = start("serve");
    struct objects *here = NULL, *there = NULL;

    ok(r != NULL && landmark_function(1) == 4);
    ok(objects_new(1 << 20, NULL, &here) == 0 && objects_new(1 << 20, r, &there) == 0);
    compare(here, there);
    ok(file_reader_cpu_ns(r) > 0);
    objects_free(here);
    objects_free(there);
}

static int ask_facts(struct file_reader *r, int fd, const char *path)
{
    struct file_request q = {.op = FILE_FACTS};
    struct file_answer a;
    int fds[2] = {fd, -1};

    file_request_path(&q, path);
    return file_reader_ask(r, &q, fds, &a, NULL);
}

/* A copy of this program, so that it is another file. */
static int copy_of_self(void)
{
    int fd = memfd_create("copy", MFD_CLOEXEC), from = self();
    char block[65536];
    ssize_t n;

    while ((n = fd_read(from, block, sizeof block)) > 0)
        fd_write_all(fd, block, (size_t) n);
    fd_close(from);
    return fd;
}

static void test_crash(void)
{
    _cleanup_(file_reader_freep) struct file_reader *r = start("hostile");
    _cleanup_(fd_closep) int honest = self(), bad = copy_of_self();

    for (int i = 0; i < 5; i++) {
        eq_int(ask_facts(r, bad, "/tmp/crash"), -EIO);
        eq_int(ask_facts(r, honest, "/bin/honest"), 0);
    }
    eq_int((int64_t) file_reader_deaths(r), 2); /* then the file was refused */
}

static void test_lies(void)
{
    _cleanup_(file_reader_freep) struct file_reader *r = start("hostile");
    _cleanup_(fd_closep) int honest = self(), bad = copy_of_self();
    struct objects *objects = NULL;
    struct object *o = NULL;
    const struct object_key none = {0};

    eq_int(ask_facts(r, bad, "/tmp/lie"), -EIO);
    eq_int(ask_facts(r, honest, "/bin/honest"), 0);
    ok(objects_new(1 << 20, r, &objects) == 0);
    ok(objects_add(objects, self(), "/tmp/unsealed", &none, &o, NULL) == 0);
    ok(o && !objects_table(objects, o, 1) && o->failed); /* memory that could still change is not used */
    object_unref(o);
    eq_int(ask_facts(r, honest, "/bin/honest"), 0);
    objects_free(objects);
}

/* Many files, each of which ends the process once: it is not started more often than the limit allows. */
static void test_back_off(void)
{
    _cleanup_(file_reader_freep) struct file_reader *r = start("hostile");
    int busy = 0, died = 0;

    for (int i = 0; i < 24; i++) {
        _cleanup_(fd_closep) int bad = copy_of_self();
        int code = ask_facts(r, bad, "/tmp/crash");

        busy += code == -EBUSY;
        died += code == -EIO;
    }
    ok(busy + died == 24 && busy > 0 && died >= 7);
}

static pid_t child_of_mine(void)
{
    char path[64], text[64] = "";
    int fd;

    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int) getpid());
    fd = fd_open(AT_FDCWD, path, O_RDONLY, 0);
    ok(fd >= 0 && fd_read(fd, text, sizeof text - 1) > 0);
    fd_close(fd);
    return (pid_t) atoi(text);
}

static void test_killed(void)
{
    _cleanup_(file_reader_freep) struct file_reader *r = start("serve");
    _cleanup_(fd_closep) int honest = self();
    pid_t pid = child_of_mine();

    ok(pid > 1 && kill(pid, SIGKILL) == 0);
    eq_int(ask_facts(r, honest, "/bin/honest"), 0); /* someone else killed it: asked again */
    eq_int((int64_t) file_reader_deaths(r), 0);
    ok(start("mute") == NULL); /* one that does not answer is not used */
}

/* What the process may not do. */
static void test_confined(void)
{
    pid_t pid = fork();
    int status = 0;

    if (pid == 0) {
        struct symbol_confine c = {.memory_max = (size_t) 8 << 30, .no_files = true};
        int bad = symbol_process_confine(&c) < 0;

#ifndef __SANITIZE_ADDRESS__
        bad |= open("/etc/passwd", O_RDONLY) >= 0 || errno != EPERM;
        bad |= openat(AT_FDCWD, "/etc/passwd", O_RDONLY) >= 0;
        bad |= syscall(SYS_openat2, AT_FDCWD, "/etc/passwd", NULL, 0) >= 0;
        bad |= access("/etc/passwd", R_OK) == 0;
        bad |= socket(AF_INET, SOCK_STREAM, 0) >= 0;
        bad |= fork() >= 0;
        bad |= kill(getppid(), 0) == 0;
        bad |= syscall(SYS_tgkill, getppid(), getppid(), 0) == 0;
        bad |= syscall(SYS_ptrace, 0, 0, 0, 0) >= 0;
        bad |= syscall(SYS_execve, "/bin/true", NULL, NULL) >= 0;
#endif
        _exit(bad ? 1 : 0);
    }
    ok(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* A table that breaks a rule of rows.h is refused, whatever the sender says. */
static void test_table_check(void)
{
    _cleanup_(elf_freep) struct elf_file *f = NULL;
    _cleanup_(unwind_table_freep) struct unwind_table *t = NULL, *u = NULL;
    struct unwind_table checked;
    uint64_t *copy;
    size_t n = 0, bad = 0;
    void *p = NULL;
    int fd = -1;

    ok(elf_open("/proc/self/exe", &f, NULL) == 0 && elf_table_new(f, NULL, &t, NULL) == 0);
    ok(unwind_table_share(t, &fd) == 0 && unwind_table_map(fd, &u) == 0 && sealed_map(fd, 1 << 28, &p, &n) == 0);
    copy = mem_dup(p, n);
    ok(unwind_table_check(copy, n, &checked) == 0);
    ok(unwind_table_check(copy, n - 2, &checked) == -EBADMSG && unwind_table_check(copy, 16, &checked) == -EBADMSG);
    for (size_t i = 0; i < n; i += 1 + n / 4000) { /* whatever is accepted can be searched */
        ((uint8_t *) copy)[i] ^= 0xff;
        if (unwind_table_check(copy, n, &checked) < 0)
            bad++;
        else
            for (uint64_t k = 0; k < checked.n_pages; k++)
                unwind_find(&checked, (checked.first_page + k) << 16 | (k * 7919 & 0xffff));
        ((uint8_t *) copy)[i] ^= 0xff;
    }
    ok(bad > 100);
    munmap(p, n);
    mem_free(copy);
    fd_close(fd);
}

int main(int argc, char **argv)
{
    if (argc == 2)
        return child(argv[1]);
    tap_run(test_same);
    tap_run(test_crash);
    tap_run(test_lies);
    tap_run(test_back_off);
    tap_run(test_killed);
    tap_run(test_confined);
    tap_run(test_table_check);
    return tap_done();
}
