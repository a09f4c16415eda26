/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends sampled addresses to a symbolizer process and stores the lines and inlined calls that it returns.
 *
 * Reading debug information takes about 2.5 ms per MB of the file. A single huge program can use up the CPU time of many
 * minutes, so files are in two classes by size, and each class has half of the CPU time: the lines of small files never
 * wait until the debt of a huge one is paid. Within a class, files that were never requested come first, the smallest of
 * them before the others; then the one whose last request is the oldest.
 */
#include "agent/object_lines.h"

#include <errno.h>
#include <fcntl.h>

#include "agent/debug_file.h"
#include "agent/names.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "model/symbolizer.h"

enum { ADDRESSES_MAX = 4096, FRAMES_MAX = 256 }; /* per request; per address */
static const uint64_t AGAIN_NS = 60ull * NS_PER_S, IDLE_NS = 5ull * NS_PER_S;
static const int64_t WAIT_NS = 15ll * NS_PER_S;
static const uint64_t SMALL_BYTES = 16 << 20;

enum lines_class { LINES_SMALL, LINES_LARGE, LINES_CLASSES };

struct object_lines {
    struct object_lines_options options;
    struct object *asked; /* a reference; NULL: no request is under way */
    uint64_t addresses[ADDRESSES_MAX];
    uint32_t n;
    bool awake; /* there may be something to request */
    int64_t credit_ns[LINES_CLASSES], spent_ns;
    uint64_t told_ns, used_ns; /* when the credit was last updated; when there was last something to do */
};

int object_lines_new(const struct object_lines_options *o, struct object_lines **ret)
{
    struct object_lines *l = mem_zalloc(sizeof *l);

    if (!l)
        return -ENOMEM;
    l->options = *o;
    l->credit_ns[LINES_SMALL] = l->credit_ns[LINES_LARGE] = o->credit_ns / LINES_CLASSES;
    *ret = l;
    return 0;
}

void object_lines_free(struct object_lines *l)
{
    if (!l)
        return;
    object_unref(l->asked);
    mem_free(l);
}

uint64_t object_lines_cpu_ns(const struct object_lines *l)
{
    struct symbolizer *s = l->options.symbolizer;

    return s->cpu_ns ? (uint64_t) s->cpu_ns(s) : 0;
}

void object_lines_wake(struct object_lines *l)
{
    l->awake = true;
}

/* The file with the lines goes to the symbolizer as a descriptor: it can open nothing but the system's debug files. */
struct lines_question {
    struct symbol_request request;
    struct debug_file file;
    int fd;
};

static int question(struct object_lines *l, struct object *o, struct lines_question *ret)
{
    bool known = o->has_own_lines && o->fd >= 0;

    l->n = object_names_unlined(o, l->addresses, ADDRESSES_MAX);
    if (!l->n)
        return -ENODATA;
    if (!o->has_own_lines) {
        ret->fd = debug_file_open(o, &ret->file);
    } else {
        ret->fd = known ? fcntl(o->fd, F_DUPFD_CLOEXEC, 3) : fd_open_in_root("/", o->path);
        object_reach(o, ret->file.path, sizeof ret->file.path);
    }
    if (ret->fd < 0)
        return ret->fd;
    ret->request = (struct symbol_request){.path = str_from(ret->file.path),
                                           .fd = &ret->fd,
                                           .build_id = known ? STR("") : str_from(o->gnu_id),
                                           .addresses = l->addresses,
                                           .n_addresses = l->n,
                                           .lines = true};
    return 0;
}

static void take(struct object_lines *l, struct object *o, const struct symbol_answer *a)
{
    struct object_frame frames[FRAMES_MAX];

    for (uint32_t i = 0; i < a->n_addresses; i++) {
        const struct symbol_frame *f = a->frames + a->first[i];
        uint32_t n = MIN(a->first[i + 1] - a->first[i], (uint32_t) FRAMES_MAX);

        if (!n || (n == 1 && !f->line)) /* no more than is in the symbol table */
            continue;
        for (uint32_t k = 0; k < n; k++)
            frames[k] = (struct object_frame){f[k].function, f[k].system_name, f[k].file, (int32_t) f[k].line,
                                              (int32_t) f[k].start_line};
        object_names_set(o, l->addresses[i], frames, n);
    }
}

static enum lines_class class_of(const struct object *o)
{
    return o->lines_bytes < SMALL_BYTES ? LINES_SMALL : LINES_LARGE;
}

static bool comes_before(const struct object *a, const struct object *b)
{
    if (a->lines_next_ns != b->lines_next_ns)
        return a->lines_next_ns < b->lines_next_ns;
    return a->lines_bytes < b->lines_bytes;
}

/* Chooses a file for the next request, among the classes that have CPU time left (`open`). *ret_later: there is one that
 * has to wait. */
static struct object *next_object(struct objects *objects, uint64_t now_ns, const bool open[LINES_CLASSES],
                                  bool *ret_later)
{
    struct object *next[LINES_CLASSES] = {0};

    for (size_t i = 0; i < objects_count(objects); i++) {
        struct object *o = objects_at(objects, i);
        enum lines_class class = class_of(o);

        if (!o->has_lines || !object_names_has_unlined(o))
            continue;
        if (o->lines_next_ns > now_ns || !open[class])
            *ret_later = true;
        else if (!next[class] || comes_before(o, next[class]))
            next[class] = o;
    }
    return next[LINES_SMALL] ? next[LINES_SMALL] : next[LINES_LARGE];
}

/* --- with a budget --- */
static void ask(struct object_lines *l, struct object *o, uint64_t now_ns)
{
    struct symbolizer *s = l->options.symbolizer;
    struct lines_question q;
    int r = question(l, o, &q);

    if (r == -ENODATA)
        return;
    o->lines_next_ns = now_ns + AGAIN_NS;
    l->used_ns = now_ns;
    if (r == 0) {
        r = s->ask(s, &q.request, NULL);
        fd_close(q.fd);
    }
    if (r < 0)
        o->has_lines = false;
    else
        l->asked = object_ref(o);
}

/* What was spent is charged to the class of the requested file. */
static void charge(struct object_lines *l)
{
    int64_t spent = (int64_t) object_lines_cpu_ns(l);

    l->credit_ns[l->asked ? class_of(l->asked) : LINES_SMALL] -= spent - l->spent_ns;
    l->spent_ns = spent;
}

/* True when the request is finished. */
static bool is_answered(struct object_lines *l)
{
    _cleanup_(symbol_answer_freep) struct symbol_answer *a = NULL;
    struct symbolizer *s = l->options.symbolizer;
    int r;

    if (!l->asked)
        return true;
    r = s->answer(s, &a, NULL);
    if (r == -EAGAIN)
        return false;
    if (r < 0)
        l->asked->has_lines = false; /* too large for it, or gone: names stay as they are */
    else
        take(l, l->asked, a);
    charge(l);
    object_unref(TAKE(l->asked));
    return true;
}

/* The classes share the time that has passed. */
static void count_credit(struct object_lines *l, uint64_t now_ns)
{
    int64_t passed = l->told_ns ? (int64_t) (now_ns - l->told_ns) : 0;

    for (int i = 0; i < LINES_CLASSES; i++) {
        l->credit_ns[i] += (int64_t) ((double) passed * l->options.cpu / LINES_CLASSES);
        l->credit_ns[i] = MIN(l->credit_ns[i], l->options.credit_ns / LINES_CLASSES);
    }
    charge(l);
    l->told_ns = now_ns;
}

void object_lines_step(struct object_lines *l, struct objects *objects, uint64_t now_ns)
{
    struct symbolizer *s = l->options.symbolizer;
    bool open[LINES_CLASSES], later = false;
    struct object *o;

    if (!s->ask || (!l->asked && !l->awake))
        return;
    count_credit(l, now_ns);
    if (!is_answered(l))
        return;
    for (int i = 0; i < LINES_CLASSES; i++)
        open[i] = l->credit_ns[i] > 0;
    o = next_object(objects, now_ns, open, &later);
    if (o)
        ask(l, o, now_ns);
    else if (now_ns - l->used_ns > IDLE_NS) {
        s->rest(s);
        l->awake = later;
    }
}

/* --- without --- */
void object_lines_all(struct object_lines *l, struct objects *objects)
{
    struct symbolizer *s = l->options.symbolizer;
    int64_t end = clock_mono() + WAIT_NS;
    const bool open[LINES_CLASSES] = {true, true};
    struct object *o;
    bool later;

    while (clock_mono() < end && (o = next_object(objects, UINT64_MAX, open, &later))) {
        _cleanup_(symbol_answer_freep) struct symbol_answer *a = NULL;
        struct lines_question q;
        int r = question(l, o, &q);

        if (r == 0) {
            r = symbolizer_resolve(s, &q.request, &a, NULL);
            fd_close(q.fd);
        }
        if (r == 0)
            take(l, o, a);
        else
            o->has_lines = false;
    }
}
