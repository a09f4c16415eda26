/* SPDX-License-Identifier: Apache-2.0 */
/* Sends sampled addresses to a symbolizer process and stores the lines and inlined calls that it returns. */
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

struct object_lines {
    struct object_lines_options options;
    struct object *asked; /* a reference; NULL: no request is under way */
    uint64_t addresses[ADDRESSES_MAX];
    uint32_t n;
    bool awake; /* there may be something to request */
    int64_t credit_ns, spent_ns;
    uint64_t told_ns, used_ns; /* when the credit was last updated; when there was last something to do */
};

int object_lines_new(const struct object_lines_options *o, struct object_lines **ret)
{
    struct object_lines *l = mem_zalloc(sizeof *l);

    if (!l)
        return -ENOMEM;
    l->options = *o;
    l->credit_ns = o->credit_ns;
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

static struct object *next_object(struct objects *objects, uint64_t now_ns, bool *ret_later)
{
    for (size_t i = 0; i < objects_count(objects); i++) {
        struct object *o = objects_at(objects, i);

        if (!o->has_lines || !object_names_has_unlined(o))
            continue;
        if (o->lines_next_ns <= now_ns)
            return o;
        *ret_later = true;
    }
    return NULL;
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
    object_unref(TAKE(l->asked));
    return true;
}

static void count_credit(struct object_lines *l, uint64_t now_ns)
{
    int64_t spent = (int64_t) object_lines_cpu_ns(l), passed = l->told_ns ? (int64_t) (now_ns - l->told_ns) : 0;

    l->credit_ns += (int64_t) ((double) passed * l->options.cpu) - (spent - l->spent_ns);
    l->credit_ns = MIN(l->credit_ns, l->options.credit_ns);
    l->spent_ns = spent;
    l->told_ns = now_ns;
}

void object_lines_step(struct object_lines *l, struct objects *objects, uint64_t now_ns)
{
    struct symbolizer *s = l->options.symbolizer;
    struct object *o;
    bool later = false;

    if (!s->ask || (!l->asked && !l->awake))
        return;
    count_credit(l, now_ns);
    if (!is_answered(l))
        return;
    o = l->credit_ns > 0 ? next_object(objects, now_ns, &later) : NULL;
    if (o)
        ask(l, o, now_ns);
    else if (now_ns - l->used_ns > IDLE_NS) {
        s->rest(s);
        l->awake = later || l->credit_ns <= 0;
    }
}

/* --- without --- */
void object_lines_all(struct object_lines *l, struct objects *objects)
{
    struct symbolizer *s = l->options.symbolizer;
    int64_t end = clock_mono() + WAIT_NS;
    struct object *o;
    bool later;

    while (clock_mono() < end && (o = next_object(objects, UINT64_MAX, &later))) {
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
