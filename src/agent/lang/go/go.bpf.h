// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
/*
 * pprof labels of the goroutine that the thread runs (agent/lang/go/go_runtime.h). They are stored after the native
 * frames: one word with their number, then for each label AGENT_LABEL_WORDS words of text: key and value, both
 * truncated and padded with zeros.
 */
#ifndef AGENT_GO_BPF_H
#define AGENT_GO_BPF_H

#include "agent/lang/go/go_abi.h"

struct go_walk {
    struct scratch *s;
    __u64 list, n;
};

static __noinline long go_label(__u32 i, struct go_walk *p)
{
    __u64 *v = p->s->lang, n = p->s->event.n_words, *out, key, value;

    if (i >= p->n || n > AGENT_WORDS - AGENT_LABEL_WORDS)
        return 1;
    if (bpf_probe_read_user(v, 32, (void *) (p->list + (__u64) i * 32)))
        return 1;
    out = step_words(p->s->event.words, n, AGENT_WORDS - AGENT_LABEL_WORDS);
#pragma unroll
    for (int k = 0; k < AGENT_LABEL_WORDS; k++)
        out[k] = 0;
    key = v[1];
    value = v[3];
    if (key > AGENT_LABEL_KEY)
        key = AGENT_LABEL_KEY;
    if (value > AGENT_LABEL_VALUE)
        value = AGENT_LABEL_VALUE;
    read_user(out, key, AGENT_LABEL_KEY, v[0]);
    read_user((char *) out + AGENT_LABEL_KEY, value, AGENT_LABEL_VALUE, v[2]);
    p->s->event.n_words = n + AGENT_LABEL_WORDS;
    return 0;
}

/* g of the thread; 0 when it cannot be read. */
static __always_inline __u64 go_g(struct walk_state *w, struct agent_go *go)
{
    __u64 at = 0;

#if defined(__TARGET_ARCH_arm64)
    at = w->s->event.resume.leaf[ARCH_G];
#else
    read_word(w->s->at.tp + go->g, &at);
#endif
    return at;
}

static __always_inline void go_walk(struct walk_state *w, bool bounded)
{
    struct agent_go *go = (struct agent_go *) w->lang->words;
    struct go_walk p = {.s = w->s};
    __u64 at = go_g(w, go), slice[2] = {}, n = w->s->event.n_words;

    if (!at || read_word(at + AGENT_GO_M, &at) || !at ||
        read_word(at + go->curg, &at) || !at || read_word(at + go->labels, &at) || !at)
        return;
    if (bpf_probe_read_user(slice, sizeof slice, (void *) at) || !slice[1])
        return;
    if (n >= AGENT_WORDS)
        return;
    p.list = slice[0];
    p.n = slice[1] > AGENT_LABELS ? AGENT_LABELS : slice[1];
    *step_words(w->s->event.words, n, AGENT_WORDS - 1) = (__u64) (AGENT_WORD_LANG + LANG_go) << 56 | p.n;
    w->s->event.n_words = n + 1;
    WALK_REPEAT(bounded, AGENT_LABELS, go_label, &p);
}

LANG_HAS_NO_STEP(go)

#endif
