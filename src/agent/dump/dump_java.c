/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads what HotSpot prints of its threads (dump_java.h):
 *
 *   Full thread dump OpenJDK 64-Bit Server VM (17.0.15+6 mixed mode, sharing):
 *
 *   "main" #1 prio=5 os_prio=0 cpu=43.21ms elapsed=10.33s tid=0x00007f0c nid=0x1234 runnable  [0x00007f0d]
 *      java.lang.Thread.State: TIMED_WAITING (sleeping)
 *           at java.lang.Thread.sleep(java.base@17.0.15/Native Method)
 *           at T.main(T.java:5)
 *           - locked <0x00000000f0d0> (a java.lang.Object)
 *
 * Threads of the virtual machine itself have no number. nid is decimal from JDK 21 on.
 */
#include "agent/dump/dump_java.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/dump/dump.h"
#include "base/mem.h"
#include "proc/java_attach.h"

struct java_text {
    struct dump *s;
    struct dump_task *task; /* whose frames follow; NULL: none */
    size_t cap_tasks, cap_frames;
};

static bool find_word(struct str line, const char *word, struct str *ret_after)
{
    ptrdiff_t at = str_find(line, str_from(word));

    if (at < 0)
        return false;
    *ret_after = str_slice(line, (uint32_t) at + (uint32_t) strlen(word), line.n);
    return true;
}

static uint64_t number(struct str s)
{
    uint64_t v = 0;
    struct str digits = str_cut(&s, ' ');

    if (str_starts(digits, STR("0x")))
        str_to_u64(str_slice(digits, 2, digits.n), 16, &v);
    else
        str_to_u64(digits, 10, &v);
    return v;
}

/* "NAME" #1 … nid=0x12 STATE [0x…]. The name may contain quotes. */
static int begin_thread(struct java_text *j, struct str line)
{
    struct dump *s = j->s;
    struct dump_task t = {.wait_ns = -1, .own_moment = true, .is_system = true};
    struct str rest, id = {0};
    int r;

    j->task = NULL;
    j->cap_frames = 0;
    if (!find_word(line, " nid=", &rest))
        return 0;
    t.tid = (int) MIN(number(rest), (uint64_t) INT32_MAX);
    str_cut(&rest, ' ');
    t.state = str_trim(str_cut(&rest, '['));
    if (find_word(line, "\" #", &id)) {
        t.id = number(id);
        t.is_system = false;
    } else if (!find_word(line, "\" os_prio=", &id)) {
        find_word(line, "\" ", &id);
    }
    t.name = str_slice(line, 1, id.p ? (uint32_t) (id.p - line.p) : line.n);
    while (t.name.n && t.name.p[t.name.n - 1] != '"')
        t.name.n--;
    t.name.n -= t.name.n > 0;
    if (s->n_tasks == DUMP_TASKS_MAX) {
        s->tasks_left_out++;
        return 0;
    }
    t.stack.whole = true;
    r = array_push(s->tasks, s->n_tasks, j->cap_tasks, DUMP_TASKS_MAX, t);
    if (r < 0)
        return r;
    j->task = &s->tasks[s->n_tasks - 1];
    return 0;
}

/* METHOD(FILE:LINE), where FILE may follow a module and its version: java.base@17.0.15/Thread.java:12. */
static int add_frame(struct java_text *j, struct str text)
{
    struct dump_stack *st = &j->task->stack;
    struct dump_line *l = arena_zalloc_array(&j->s->arena, 1, sizeof *l);
    struct dump_frame f = {.type = "jvm", .module = -1, .lines = l, .n_lines = 1};
    struct dump_frame *more;
    struct str place;
    uint64_t line = 0;

    if (!l)
        return -ENOMEM;
    if (st->n_frames == DUMP_FRAMES_MAX) {
        st->whole = false;
        return 0;
    }
    l->function = str_cut(&text, '(');
    place = str_cut(&text, ')');
    while (str_find_char(place, '/') >= 0)
        str_cut(&place, '/');
    if (str_find_char(place, ':') >= 0) {
        l->file = str_cut(&place, ':');
        str_to_u64(place, 10, &line);
        l->line = (int64_t) line;
    }
    if (st->n_frames == j->cap_frames) {
        j->cap_frames = MAX(2 * j->cap_frames, (size_t) 16);
        more = arena_zalloc_array(&j->s->arena, j->cap_frames, sizeof *more);
        if (!more)
            return -ENOMEM;
        if (st->n_frames)
            memcpy(more, st->frames, st->n_frames * sizeof *more);
        st->frames = more;
    }
    st->frames[st->n_frames++] = f;
    return 0;
}

static int take_line(struct java_text *j, struct str line)
{
    struct str rest = str_trim(line), state;

    if (find_word(line, "Full thread dump ", &rest)) {
        j->s->runtime = str_ends(rest, STR(":")) ? str_slice(rest, 0, rest.n - 1) : rest;
        return 0;
    }
    if (line.n && line.p[0] == '"')
        return begin_thread(j, line);
    if (!j->task)
        return 0;
    if (!rest.n)
        j->task = NULL; /* the end of the thread */
    else if (find_word(rest, "java.lang.Thread.State: ", &state))
        j->task->state = state;
    else if (str_starts(rest, STR("at ")))
        return add_frame(j, str_slice(rest, 3, rest.n));
    return 0;
}

/* Native threads say which Java thread they run. */
static void join_threads(struct dump *s)
{
    for (uint32_t i = 0; i < s->n_tasks; i++)
        for (uint32_t k = 0; k < s->n_threads && s->tasks[i].id; k++)
            if (s->threads[k].tid == s->tasks[i].tid)
                s->threads[k].task_id = s->tasks[i].id;
}

int dump_java_parse(struct dump *s, struct str text)
{
    struct java_text j = {.s = s};
    int r = 0;

    s->task_word = "Java thread";
    while (text.n && r == 0)
        r = take_line(&j, str_cut(&text, '\n'));
    if (r == 0)
        join_threads(s);
    return r;
}

int dump_java_take(struct dump *s, struct err *e)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    struct str kept;
    int r = java_attach_threads(s->pid, &text, e);

    if (r < 0)
        return r;
    kept = arena_str(&s->arena, buf_str(&text));
    return kept.p ? dump_java_parse(s, kept) : -ENOMEM;
}
