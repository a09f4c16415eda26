/* SPDX-License-Identifier: Apache-2.0 */
/* The options that a server hands to its agent: every field arrives, and anything but such a file is refused. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/sealed.h"
#include "host/agent_options.h"
#include "host/agent_run.h"
#include "tap.h"

static void push(struct arg_list *l, const char *a, const char *b)
{
    l->v[l->n++] = a;
    l->v[l->n++] = b;
}

static struct agent_run_options sample(void)
{
    struct agent_run_options o;

    agent_run_defaults(&o);
    o.export = "http://a:4317";
    o.server = "http://b:4040";
    o.token = "secret";
    o.k8s_api = "in-cluster";
    o.log_format = "json";
    o.stats = ""; /* empty is not NULL */
    o.watch.types = "cpu,offcpu";
    o.watch.unwind = "copy";
    o.watch.via = NULL;
    o.watch.events = "cycles";
    push(&o.scrape, "http://x", "http://y");
    push(&o.watch.include, "exe=a", "");
    push(&o.watch.exclude, "name=b", "name=c");
    push(&o.watch.rename, "(.*)=\\1", "x=y");
    push(&o.watch.pids, "1", "2");
    o.watch.rate = 97;
    o.watch.threshold = 5;
    o.watch.jcmd = o.both = o.keep_caps = true;
    o.budget = 0.5;
    o.interval = 7;
    o.feed_fd = 3;
    return o;
}

static bool same(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool same_list(const struct arg_list *a, const struct arg_list *b)
{
    for (size_t i = 0; a->n == b->n && i < a->n; i++)
        if (!same(a->v[i], b->v[i]))
            return false;
    return a->n == b->n;
}

static int cross(void)
{
    struct agent_run_options o = sample(), got = {.feed_fd = 9};
    struct err e = {0};
    struct arena a;
    int fd = -1, r = agent_options_send(&o, &fd, &e);

    arena_init(&a, 1 << 20);
    if (r == 0)
        r = agent_options_receive(fd, &a, &got, &e);
    if (r == 0) {
        ok(same(got.export, o.export) && same(got.server, o.server) && same(got.token, o.token));
        ok(same(got.k8s_api, o.k8s_api) && same(got.log_format, o.log_format) && same(got.stats, o.stats));
        ok(same(got.watch.types, o.watch.types) && same(got.watch.unwind, o.watch.unwind));
        ok(same(got.watch.events, o.watch.events) && !got.watch.via);
        ok(same_list(&got.scrape, &o.scrape) && same_list(&got.watch.pids, &o.watch.pids));
        ok(same_list(&got.watch.include, &o.watch.include) && same_list(&got.watch.exclude, &o.watch.exclude));
        ok(same_list(&got.watch.rename, &o.watch.rename));
        ok(got.watch.rate == 97 && got.watch.threshold == 5 && got.watch.jcmd && !got.watch.no_lines);
        ok(got.both && got.keep_caps && !got.upload_symbols && got.budget == 0.5 && got.interval == 7);
        ok(got.memory == o.memory && got.feed_fd == 9); /* a descriptor of its own */
        ok(fcntl(fd, F_GETFD) < 0);                     /* closed */
    }
    arena_done(&a);
    return r;
}

static void test_cross(void)
{
    eq_int(cross(), 0);
}

/* Texts and lists are pointers, of which agent_options.c has a list: whoever adds one changes these sums. */
static void test_every_field_is_known(void)
{
    size_t texts = 10 * sizeof(char *), lists = 5 * sizeof(struct arg_list);

    eq_int(sizeof(struct agent_run_options), texts + lists + 8 * sizeof(int64_t) + sizeof(double) + 16 /* flags */);
}

static int receive_bytes(const void *p, size_t n)
{
    struct agent_run_options got = {0};
    struct str all = {p, (uint32_t) n};
    struct err e = {0};
    struct arena a;
    int fd = -1, r = sealed_new("test", &all, 1, &fd);

    arena_init(&a, 1 << 20);
    if (r == 0)
        r = agent_options_receive(fd, &a, &got, &e);
    arena_done(&a);
    return r;
}

static void test_refused(void)
{
    struct agent_run_options o = sample();
    struct err e = {0};
    int fd = -1, plain = memfd_create("plain", MFD_CLOEXEC);
    struct arena a;
    size_t n = 0;
    void *p = NULL;

    ok(agent_options_send(&o, &fd, &e) == 0 && sealed_map(fd, 1 << 20, &p, &n) == 0);
    eq_int(receive_bytes(p, n), 0);
    for (size_t cut = 1; cut < 40; cut++)
        eq_int(receive_bytes(p, n - cut), -EBADMSG);
    eq_int(receive_bytes(p, sizeof o - 1), -EBADMSG);
    eq_int(receive_bytes("", 0), -EBADMSG);
    munmap(p, n);
    close(fd);
    arena_init(&a, 1 << 20);
    ok(write(plain, &o, sizeof o) == sizeof o);
    eq_int(agent_options_receive(plain, &a, &o, &e), -EBADMSG); /* not sealed: it could still change */
    arena_done(&a);
}

int main(void)
{
    tap_run(test_cross);
    tap_torture(cross);
    tap_run(test_every_field_is_known);
    tap_run(test_refused);
    return tap_done();
}
