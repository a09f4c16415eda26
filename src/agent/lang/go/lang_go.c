/* SPDX-License-Identifier: Apache-2.0 */
/* Go's user side: finds where a process keeps the pprof labels of its goroutines, and cuts the labels out of events. */
#include "agent/lang/go/lang_go.h"

#include <errno.h>

#include "agent/process.h"
#include "agent/reader/file_reader.h"

/* The BPF side reads labels as Go 1.24 and later keep them. */
static int attach(struct process *p, struct err *e)
{
    struct file_request q = {.op = FILE_GO};
    struct file_answer a;

    if (!p->exe || !p->exe->is_go || object_ask(p->exe, &q, -1, &a, NULL) != 1 || !a.go.is_slice)
        return 0;
    p->lang_record = (struct agent_lang){.kind = AGENT_LANG_GO};
    p->lang_record.go = (struct agent_go){a.go.g, a.go.curg, a.go.labels};
    return 1;
}

static uint32_t merge(struct process *p, uint64_t *words, uint32_t n_kernel, uint32_t n_native, uint32_t n, bool whole)
{
    return n_native; /* only labels follow */
}

static struct str labels(const uint64_t *words, uint32_t n)
{
    uint32_t count = n ? (uint32_t) AGENT_WORD_VALUE(words[0]) : 0;

    if (!n || AGENT_WORD_KIND(words[0]) != AGENT_WORD_LANG + AGENT_FRAME_GO)
        return (struct str){0};
    count = MIN(count, (n - 1) / AGENT_LABEL_WORDS);
    return (struct str){(const char *) (words + 1), count * AGENT_LABEL_WORDS * 8};
}

static int resolve(struct process *p, const uint64_t words[AGENT_LANG_WORDS], struct arena *a, struct lang_frame *ret)
{
    return -ENOENT;
}

const struct lang lang_go = {"go", AGENT_LANG_GO, attach, NULL, merge, labels, resolve};
