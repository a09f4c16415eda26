/* SPDX-License-Identifier: Apache-2.0 */
/* Lines beside the agent's work: a symbolizer that does as it is told shows what is asked, when, and at what cost. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/names.h"
#include "agent/object_lines.h"
#include "base/clock.h"
#include "base/fd.h"
#include "model/symbolizer.h"
#include "tap.h"

struct fake {
    struct symbolizer base;
    unsigned asked, rested;
    uint64_t addresses[8];
    uint32_t n;
    bool ready;
    int code; /* of answers */
    int64_t spent;
};

static int fake_ask(struct symbolizer *s, const struct symbol_request *q, struct err *e)
{
    struct fake *f = container_of(s, struct fake, base);

    (void) e;
    f->asked++;
    f->n = MIN(q->n_addresses, 8u);
    memcpy(f->addresses, q->addresses, f->n * sizeof f->addresses[0]);
    return 0;
}

/* Two frames at each address: its number is the line. */
static int fake_answer(struct symbolizer *s, struct symbol_answer **ret, struct err *e)
{
    struct fake *f = container_of(s, struct fake, base);
    struct symbol_answer *a;

    (void) e;
    if (!f->ready)
        return -EAGAIN;
    f->spent += NS_PER_S / 2;
    if (f->code < 0)
        return f->code;
    a = mem_zalloc(sizeof *a);
    arena_init(&a->arena, 1 << 20);
    a->first = arena_zalloc_array(&a->arena, f->n + 1, sizeof *a->first);
    a->frames = arena_zalloc_array(&a->arena, 2 * f->n, sizeof *a->frames);
    a->n_addresses = f->n;
    for (uint32_t i = 0; i < f->n; i++) {
        a->frames[2 * i] =
            (struct symbol_frame){STR("inner"), STR("inner"), STR("x.c"), (int64_t) f->addresses[i], 0, 1, true};
        a->frames[2 * i + 1] = (struct symbol_frame){STR("outer"), STR("outer"), STR("x.c"), 7, 0, 1, false};
        a->first[i + 1] = 2 * (i + 1);
    }
    *ret = a;
    return 0;
}

static int64_t fake_cpu(struct symbolizer *s)
{
    return container_of(s, struct fake, base)->spent;
}

static void fake_rest(struct symbolizer *s)
{
    container_of(s, struct fake, base)->rested++;
}

struct stage {
    struct fake fake;
    struct objects *objects;
    struct object *object;
    struct object_lines *lines;
};

static void setup(struct stage *s)
{
    struct object_lines_options o = {.symbolizer = &s->fake.base, .cpu = 0.01, .credit_ns = NS_PER_S};
    struct object_key key = {.inode = 1, .generation = 1};

    *s = (struct stage){.fake = {.base = {NULL, NULL, fake_ask, fake_answer, fake_cpu, fake_rest}}};
    objects_new(1 << 20, NULL, &s->objects);
    eq_int(objects_add(s->objects, fd_open(AT_FDCWD, "/proc/self/exe", O_RDONLY, 0), "/proc/self/exe", &key, &s->object,
                       NULL),
           0);
    eq_int(object_lines_new(&o, &s->lines), 0);
}

static void teardown(struct stage *s)
{
    object_lines_free(s->lines);
    object_unref(s->object);
    objects_free(s->objects);
}

static void want(struct stage *s, uint64_t address)
{
    object_names_want(s->object, address);
    object_names_resolve(s->object);
    s->object->has_lines = true;
    object_lines_wake(s->lines);
}

static uint32_t frames_at(struct stage *s, uint64_t address)
{
    const struct object_name *n = object_names_find(s->object, address);

    return n ? n->n_frames : 0;
}

static void test_beside_the_work(void)
{
    struct stage s;
    uint64_t t = 1000ull * NS_PER_S;

    setup(&s);
    object_lines_step(s.lines, s.objects, t);
    eq_int(s.fake.asked, 0); /* nobody woke it */
    want(&s, 3);
    want(&s, 5);
    object_lines_step(s.lines, s.objects, t);
    eq_int(s.fake.asked, 1);
    eq_int(s.fake.n, 2);
    eq_int(frames_at(&s, 3), 0);
    object_lines_step(s.lines, s.objects, t += NS_PER_S); /* no answer yet: nothing waits */
    s.fake.ready = true;
    object_lines_step(s.lines, s.objects, t += NS_PER_S);
    eq_int(frames_at(&s, 3), 2);
    eq_int(object_names_find(s.object, 5)->frames[0].line, 5);
    eq_str(object_names_find(s.object, 5)->frames[1].name, STR("outer"));
    want(&s, 9); /* once a minute */
    object_lines_step(s.lines, s.objects, t += NS_PER_S);
    eq_int(s.fake.asked, 1);
    object_lines_step(s.lines, s.objects, t += 10ull * NS_PER_S);
    eq_int(s.fake.rested, 1);
    object_lines_step(s.lines, s.objects, t += 60ull * NS_PER_S);
    eq_int(s.fake.asked, 2);
    eq_int(s.fake.n, 1);
    object_lines_step(s.lines, s.objects, t += NS_PER_S);
    eq_int(frames_at(&s, 9), 2);
    teardown(&s);
}

/* Half a second for each answer: with one second in hand and 1 % of a CPU, the third has to wait. */
static void test_budget(void)
{
    struct stage s;
    uint64_t begin = 1000ull * NS_PER_S, t = begin;

    setup(&s);
    s.fake.ready = true;
    for (; t < begin + 3600ull * NS_PER_S; t += NS_PER_S) {
        want(&s, t / NS_PER_S);
        object_lines_step(s.lines, s.objects, t);
        if (t == begin + 200ull * NS_PER_S)
            ok(s.fake.asked >= 2 && s.fake.asked <= 6);
    }
    ok(s.fake.spent <= NS_PER_S + 3600 * NS_PER_S / 100 + NS_PER_S / 2);
    ok(s.fake.asked > 30);
    eq_int(object_lines_cpu_ns(s.lines), s.fake.spent);
    teardown(&s);
}

static struct object *add_object(struct stage *s, const char *path, uint64_t bytes, bool first)
{
    static uint64_t inode = 100;
    struct object_key key = {.inode = ++inode, .generation = 1};
    struct object *o = NULL;

    eq_int(objects_add(s->objects, fd_open(AT_FDCWD, path, O_RDONLY, 0), path, &key, &o, NULL), 0);
    object_names_want(o, first ? 1 : 2);
    object_names_resolve(o);
    o->has_lines = true;
    o->has_own_lines = true;
    o->lines_bytes = bytes;
    return o;
}

/* A huge program that costs minutes of the budget comes after small ones, and does not keep later ones waiting. */
static void test_small_files_do_not_wait(void)
{
    struct stage s;
    uint64_t t = 1000ull * NS_PER_S;
    struct object *huge, *small, *late;

    setup(&s);
    s.fake.ready = true;
    huge = add_object(&s, "/bin/sh", 1ull << 30, true);
    small = add_object(&s, "/bin/ls", 1 << 20, false);
    object_lines_wake(s.lines);
    object_lines_step(s.lines, s.objects, t);
    eq_int(s.fake.asked, 1);
    ok(small->lines_next_ns > t && !huge->lines_next_ns);
    object_lines_step(s.lines, s.objects, t += NS_PER_S); /* the small one took half a second: now the huge one */
    ok(huge->lines_next_ns > t);
    s.fake.spent += 3600ll * NS_PER_S; /* more than it may use in a hundred hours */
    object_lines_step(s.lines, s.objects, t += NS_PER_S);
    late = add_object(&s, "/bin/cat", 1 << 20, true);
    object_lines_wake(s.lines);
    object_lines_step(s.lines, s.objects, t += 200ull * NS_PER_S);
    ok(late->lines_next_ns > t);
    eq_int(s.fake.asked, 3);
    object_names_want(huge, 77);
    object_names_resolve(huge);
    object_lines_step(s.lines, s.objects, t += 3600ull * NS_PER_S);
    eq_int(s.fake.asked, 3); /* the huge one has to wait */
    object_unref(huge);
    object_unref(small);
    object_unref(late);
    teardown(&s);
}

static void test_failure(void)
{
    struct stage s;
    uint64_t t = 1000ull * NS_PER_S;

    setup(&s);
    s.fake.ready = true;
    s.fake.code = -EIO;
    want(&s, 3);
    object_lines_step(s.lines, s.objects, t);
    object_lines_step(s.lines, s.objects, t += NS_PER_S);
    ok(!s.object->has_lines); /* not asked again */
    eq_int(frames_at(&s, 3), 0);
    teardown(&s);
}

/* Names that no batch needs any more make room. */
static void test_names_make_room(void)
{
    struct object_key key = {.inode = 2, .generation = 1};
    struct object *other = NULL;
    struct stage s;

    setup(&s);
    eq_int(objects_add(s.objects, fd_open(AT_FDCWD, "/bin/sh", O_RDONLY, 0), "/bin/sh", &key, &other, NULL), 0);
    want(&s, 3);
    object_names_want(other, 5);
    s.object->names_used_ns = 10;
    other->names_used_ns = 20;
    ok(object_names_memory(other) > 0);
    objects_limit_names(s.objects, 20, 1 << 20);
    ok(s.object->names && other->names); /* all fits */
    objects_limit_names(s.objects, 20, 0);
    ok(!s.object->names && other->names); /* one is of the batch at hand */
    eq_int(object_names_memory(s.object), 0);
    objects_limit_names(s.objects, 21, 0);
    ok(!other->names);
    object_unref(other);
    teardown(&s);
}

/* A file of an ordinary user that claims the build id of root's is another object, whoever comes first. */
static void test_ids_of_others(void)
{
    struct object_key none = {0};
    struct objects *objects;
    struct object *ours, *theirs, *again;
    char path[] = "/tmp/wick-object-XXXXXX", command[128], id[64];
    int fd = mkstemp(path);

    if (geteuid() != 0)
        return;
    snprintf(command, sizeof command, "cp /proc/%d/exe %s && chown 52001 %s", getpid(), path, path);
    ok(fd >= 0 && system(command) == 0);
    for (int first = 0; first < 2; first++) {
        ok(objects_new(1 << 20, NULL, &objects) == 0);
        if (first == 1)
            ok(objects_add(objects, fd_open_regular(path), path, &none, &theirs, NULL) == 0);
        ok(objects_add(objects, fd_open_regular("/proc/self/exe"), "/proc/self/exe", &none, &ours, NULL) == 0);
        if (first == 0)
            ok(objects_add(objects, fd_open_regular(path), path, &none, &theirs, NULL) == 0);
        snprintf(id, sizeof id, "%s", object_id(ours));
        ok(ours != theirs && ours->gnu_id[0] && !theirs->gnu_id[0] && strcmp(object_id(theirs), id) != 0);
        ok(objects_add(objects, fd_open_regular(path), path, &none, &again, NULL) == 0);
        ok(again == theirs);
        ok(objects_add(objects, fd_open_regular("/proc/self/exe"), "/proc/self/exe", &none, &again, NULL) == 0);
        ok(again == ours);
        objects_free(objects);
    }
    fd_close(fd);
    fd_unlink(AT_FDCWD, path);
    ok(fd_open_regular("/dev/null") == -EINVAL && fd_open_regular("/tmp") == -EINVAL);
}

int main(void)
{
    tap_run(test_ids_of_others);
    tap_run(test_beside_the_work);
    tap_run(test_budget);
    tap_run(test_small_files_do_not_wait);
    tap_run(test_failure);
    tap_run(test_names_make_room);
    return tap_done();
}
