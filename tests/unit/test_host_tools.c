/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of `wick record` and `wick dump` by their texts: names of events and why one is not there, packages with names, and
 * the threads that a Java program prints. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/dump/dump.h"
#include "agent/dump/dump_java.h"
#include "agent/perf_events.h"
#include "base/fd.h"
#include "base/mem.h"
#include "host/name_hint.h"
#include "tap.h"

/* --- events --- */
static void test_events(void)
{
    struct perf_events v;
    struct err e = {0};

    ok(perf_events_parse("cycles, cache-misses/1000", &v, &e) == 0);
    eq_int(v.n, 2);
    eq_str(str_from(v.v[0].name), STR("cycles"));
    eq_int(v.v[0].period, 0);
    eq_str(str_from(v.v[1].name), STR("cache-misses"));
    eq_int(v.v[1].period, 1000);
    ok(perf_events_parse("faults", &v, &e) == 0);
    eq_str(str_from(v.v[0].name), STR("page-faults"));
    ok(perf_events_parse("cycles,instructions,branches,branch-misses,page-faults", &v, &e) == -EINVAL);
    ok(strstr(e.message, "at most 4"));
    ok(perf_events_parse("cycles/0", &v, &e) == -EINVAL);
    ok(perf_events_parse("", &v, &e) == -EINVAL);
}

static void put_file(const char *folder, const char *name, const char *text)
{
    char path[512];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    *strrchr(path, '/') = 0;
    ok(fd_mkdir_all(path, 0755) >= 0);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    ok(fd_write_file(path, text, strlen(text), NULL) == 0);
}

static char tree[64];

static const char *explain(int code)
{
    static struct err e;
    struct perf_event_choice c = {.name = "cycles"};
    char devices[128], cpuinfo[128];

    e = (struct err){0};
    snprintf(devices, sizeof devices, "%s/devices", tree);
    snprintf(cpuinfo, sizeof cpuinfo, "%s/cpuinfo", tree);
    ok(perf_events_explain(&c, code, devices, cpuinfo, &e) == code);
    return e.message;
}

static void test_missing_events(void)
{
    ok(strstr(explain(-EACCES), "requires CAP_PERFMON"));
    ok(strstr(explain(-ENOENT), "the kernel has no driver for its hardware counters"));
    put_file(tree, "cpuinfo", "flags\t\t: fpu hypervisor lahf_lm\n");
    ok(strstr(explain(-ENOENT), "it is a virtual machine without hardware counters"));
    put_file(tree, "devices/cpu/type", "4\n");
    ok(strstr(explain(-EOPNOTSUPP), "this processor does not count 'cycles'"));
}

/* --- packages --- */
static void check_hint(const char *path, const char *want)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;

    name_hint(tree, path, &b);
    eq_str(buf_str(&b), str_from(want));
}

static void test_hints(void)
{
    check_hint("/usr/bin/redis-server",
               "install its debug symbols, or add --debuginfod https://debuginfod.elfutils.org");
    put_file(tree, "etc/os-release", "NAME=\"Fedora Linux\"\nID=fedora\n");
    check_hint("/usr/bin/redis-server", "run 'dnf debuginfo-install /usr/bin/redis-server', or add --debuginfod "
                                        "https://debuginfod.fedoraproject.org");
    put_file(tree, "etc/os-release", "NAME=\"Debian GNU/Linux\"\nID=debian\n");
    put_file(tree, "var/lib/dpkg/info/redis-tools.list", "/.\n/usr/bin/redis-cli\n");
    put_file(tree, "var/lib/dpkg/info/redis-server.list", "/.\n/usr/bin\n/usr/bin/redis-server\n");
    put_file(tree, "var/lib/dpkg/info/libc6:amd64.list", "/.\n/lib/x86_64-linux-gnu/libc.so.6\n");
    check_hint("/usr/bin/redis-server",
               "install redis-server-dbgsym, or add --debuginfod https://debuginfod.debian.net");
    check_hint("/usr/lib/x86_64-linux-gnu/libc.so.6",
               "install libc6-dbg, or add --debuginfod https://debuginfod.debian.net");
    check_hint("/opt/shop/shop", "it belongs to no package: build it with -g, and do not strip it");
}

/* --- Java --- */
static const char java_text[] =
    "2026-11-16 05:10:00\n"
    "Full thread dump OpenJDK 64-Bit Server VM (17.0.15+6 mixed mode, sharing):\n"
    "\n"
    "\"main\" #1 prio=5 os_prio=0 cpu=43.21ms elapsed=10.33s tid=0x00007f0c nid=0x12d runnable  [0x00007f0d]\n"
    "   java.lang.Thread.State: TIMED_WAITING (sleeping)\n"
    "\tat java.lang.Thread.sleep(java.base@17.0.15/Native Method)\n"
    "\tat java.util.concurrent.Pool.get(java.base@17.0.15/Pool.java:77)\n"
    "\t- locked <0x00000000f0d0> (a java.lang.Object)\n"
    "\tat T.main(T.java:5)\n"
    "\n"
    "\"say \"hi\" #7\" #12 [302] daemon prio=5 os_prio=0 tid=0x00007f0c nid=302 waiting on condition  [0x00007f0d]\n"
    "\tat Lone.run(Unknown Source)\n"
    "\n"
    "\"GC Thread#0\" os_prio=0 cpu=0.10ms elapsed=1.05s tid=0x00007f nid=0x12f runnable  \n"
    "\n"
    "JNI global refs: 5, weak refs: 0\n";

static void test_java(void)
{
    struct dump_thread native = {.tid = 301};
    struct dump s = {.pid = 1, .threads = &native, .n_threads = 1};

    arena_init(&s.arena, 1 << 20);
    ok(dump_java_parse(&s, str_from(java_text)) == 0);
    eq_str(s.runtime, STR("OpenJDK 64-Bit Server VM (17.0.15+6 mixed mode, sharing)"));
    eq_int(s.n_tasks, 3);
    eq_str(s.tasks[0].name, STR("main"));
    eq_int(s.tasks[0].id, 1);
    eq_int(s.tasks[0].tid, 301);
    eq_int(native.task_id, 1);
    eq_str(s.tasks[0].state, STR("TIMED_WAITING (sleeping)"));
    eq_int(s.tasks[0].stack.n_frames, 3);
    eq_str(s.tasks[0].stack.frames[0].lines->function, STR("java.lang.Thread.sleep"));
    eq_int(s.tasks[0].stack.frames[0].lines->line, 0);
    eq_str(s.tasks[0].stack.frames[1].lines->file, STR("Pool.java"));
    eq_str(s.tasks[0].stack.frames[2].lines->function, STR("T.main"));
    eq_int(s.tasks[0].stack.frames[2].lines->line, 5);
    eq_str(s.tasks[1].state, STR("waiting on condition"));
    eq_int(s.tasks[1].tid, 302);
    eq_int(s.tasks[1].stack.n_frames, 1);
    eq_str(s.tasks[2].name, STR("GC Thread#0"));
    ok(s.tasks[2].is_system && !s.tasks[2].id && !s.tasks[1].is_system);
    mem_free(s.tasks);
    arena_done(&s.arena);
}

/* Any part of it, and with any byte changed: it must not read beyond the text. */
static void test_java_damaged(void)
{
    size_t n = sizeof java_text - 1;

    for (size_t i = 0; i < 2 * n; i++) {
        struct dump s = {.pid = 1};
        size_t k = i < n ? i : n;
        char *copy = mem_alloc(k + 1);

        memcpy(copy, java_text, k);
        if (i >= n)
            copy[i - n] = '"';
        arena_init(&s.arena, 1 << 20);
        if (dump_java_parse(&s, (struct str){copy, (uint32_t) k}) != 0)
            ok(false);
        mem_free(s.tasks);
        mem_free(copy);
        arena_done(&s.arena);
    }
    ok(true);
}

int main(void)
{
    char command[128];

    snprintf(tree, sizeof tree, "/tmp/wick-tools-XXXXXX");
    ok(mkdtemp(tree) != NULL);
    tap_run(test_events);
    tap_run(test_missing_events);
    tap_run(test_hints);
    tap_run(test_java);
    tap_run(test_java_damaged);
    snprintf(command, sizeof command, "rm -rf '%s'", tree);
    ok(system(command) == 0);
    return tap_done();
}
