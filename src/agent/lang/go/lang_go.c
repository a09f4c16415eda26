/* SPDX-License-Identifier: Apache-2.0 */
/* Go's user side: finds where a process keeps its goroutines and their pprof labels, cuts the labels out of events, and
 * lists goroutines for `wick dump`. */
#include <errno.h>

#include "agent/lang/go/go_abi.h"
#include "agent/lang/go/go_goroutines.h"
#include "agent/lang/lang.h"
#include "base/mem.h"

static bool find_bias(const struct process *p, uint64_t *ret)
{
    for (uint32_t i = 0; i < p->n_mappings; i++)
        if (p->mappings[i].object == p->exe) {
            *ret = p->mappings[i].bias;
            return true;
        }
    return false;
}

/* The BPF side reads labels as Go 1.24 and later keep them. */
static int attach(struct process *p, struct err *e)
{
    struct lang_question q = {0};
    struct agent_go record;
    struct go_process *s;
    struct go_runtime go;
    uint64_t bias;

    if (!p->exe || !p->exe->is_go || !find_bias(p, &bias) || lang_ask(p->exe, LANG_go, &q, &go, sizeof go) != 1)
        return 0;
    s = mem_zalloc(sizeof *s);
    if (!s)
        return -ENOMEM;
    *s = (struct go_process){.runtime = go, .bias = bias, .memory = proc_memory_of((int) p->pid)};
    p->lang_state = s;
    record = (struct agent_go){go.g, go.curg, go.labels};
    memcpy(p->lang_record.words, &record, sizeof record);
    return go.is_slice && go.labels ? 1 : 2;
}

static void detach(struct process *p)
{
    mem_free(p->lang_state);
    p->lang_state = NULL;
}

static uint32_t merge(struct process *p, uint64_t *words, uint32_t n_kernel, uint32_t n_native, uint32_t n, bool whole)
{
    return n_native; /* only labels follow */
}

static struct str labels(const uint64_t *words, uint32_t n)
{
    uint32_t count = n ? (uint32_t) AGENT_WORD_VALUE(words[0]) : 0;

    if (!n || AGENT_WORD_KIND(words[0]) != AGENT_WORD_LANG + LANG_go)
        return (struct str){0};
    count = MIN(count, (n - 1) / AGENT_LABEL_WORDS);
    return (struct str){(const char *) (words + 1), count * AGENT_LABEL_WORDS * 8};
}

static int resolve(struct process *p, const uint64_t words[AGENT_LANG_WORDS], struct arena *a, struct lang_frame *ret,
                   uint32_t max)
{
    return -ENOENT;
}

static int read_file(const struct elf_file *f, const char *path, const struct lang_question *q, void *ret)
{
    return go_runtime_probe(f, ret);
}

static bool is_answer_valid(const struct lang_question *q, const void *answer)
{
    const struct go_runtime *go = answer;

    return go->is_slice <= 1 && go->n_tables <= GO_TABLES_MAX;
}

/* --- wick dump --- */
static struct str version(struct process *p, struct arena *a)
{
    return p->exe->go ? arena_str(a, str_from(p->exe->go->version)) : STR("Go");
}

static void look(struct process *p, struct arena *a)
{
    struct go_process *s = p->lang_state;

    go_states_find(s, a);
}

static uint32_t read_labels(const struct go_process *s, uint64_t goroutine, struct arena *a,
                            struct lang_label ret[LANG_LABELS_MAX])
{
    struct go_label v[GO_LABELS_MAX];
    uint32_t n = MIN(go_labels_read(&s->runtime, &s->memory, goroutine, a, v), (uint32_t) LANG_LABELS_MAX);

    for (uint32_t i = 0; i < n; i++)
        ret[i] = (struct lang_label){v[i].key, v[i].value};
    return n;
}

static void thread(struct process *p, uint64_t thread_pointer, struct arena *a, struct lang_thread *ret)
{
    struct go_process *s = p->lang_state;

    ret->task = go_current(&s->runtime, &s->memory, thread_pointer, ret->x28);
    ret->n_labels = read_labels(s, ret->task, a, ret->labels);
}

struct go_listing {
    struct go_process *s;
    struct arena *arena;
    lang_task_fn *f;
    void *arg;
};

static int on_goroutine(void *arg, const struct goroutine *g)
{
    struct go_listing *l = arg;
    struct lang_label labels[LANG_LABELS_MAX];
    struct lang_task t = {.key = g->address,
                          .id = g->id,
                          .state = g->state,
                          .wait_since_ns = g->wait_since_ns,
                          .is_running = g->is_running,
                          .regs = g->regs,
                          .stack_end = g->stack_hi,
                          .labels = labels};

    t.n_labels = read_labels(l->s, g->address, l->arena, labels);
    return l->f(l->arg, &t);
}

static int tasks(struct process *p, struct arena *a, lang_task_fn *f, void *arg, struct err *e)
{
    struct go_process *s = p->lang_state;
    struct go_listing l = {s, a, f, arg};

    return go_each_goroutine(s, on_goroutine, &l, e);
}

_Static_assert(sizeof(struct go_runtime) <= LANG_ANSWER_BYTES, "the answer has room for what is found in a file");

const struct lang lang_go = {
    .name = "go",
    .in_bpf = "Go labels",
    .attach = attach,
    .detach = detach,
    .merge = merge,
    .labels = labels,
    .resolve = resolve,
    .read_file = read_file,
    .is_answer_valid = is_answer_valid,
    .version = version,
    .look = look,
    .thread = thread,
    .tasks = tasks,
    .task_word = "goroutine",
};
