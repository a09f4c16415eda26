/* SPDX-License-Identifier: Apache-2.0 */
/* Go's user side: finds where a process keeps the pprof labels of its goroutines, and cuts the labels out of events. */
#include <errno.h>

#include "agent/lang/go/go_abi.h"
#include "agent/lang/go/go_runtime.h"
#include "agent/lang/lang.h"

/* The BPF side reads labels as Go 1.24 and later keep them. */
static int attach(struct process *p, struct err *e)
{
    struct lang_question q = {0};
    struct agent_go record;
    struct go_runtime go;

    if (!p->exe || !p->exe->is_go || lang_ask(p->exe, LANG_go, &q, &go, sizeof go) != 1 || !go.is_slice)
        return 0;
    record = (struct agent_go){go.g, go.curg, go.labels};
    memcpy(p->lang_record.words, &record, sizeof record);
    return 1;
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

static int resolve(struct process *p, const uint64_t words[AGENT_LANG_WORDS], struct arena *a, struct lang_frame *ret)
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

    return go->is_slice <= 1;
}

const struct lang lang_go = {
    .name = "go",
    .attach = attach,
    .merge = merge,
    .labels = labels,
    .resolve = resolve,
    .read_file = read_file,
    .is_answer_valid = is_answer_valid,
};
