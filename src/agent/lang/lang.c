/* SPDX-License-Identifier: Apache-2.0 */
/* The languages of langs.h, and what they have in common: see lang.h. */
#include "agent/lang/lang.h"

#include <errno.h>
#include <string.h>

#include "agent/reader/file_reader.h"

enum { ARENA_BYTES = 1 << 20 };

const struct lang *const langs[LANGS] = {
#define LANG(name) &lang_##name,
#include "agent/lang/langs.h"
#undef LANG
};

const char *const lang_words[LANGS] = {
#define LANG(name) #name,
#include "agent/lang/langs.h"
#undef LANG
};

int lang_find(struct process *p, struct err *e)
{
    for (uint32_t i = 0; i < LANGS; i++) {
        int r;

        p->lang_record = (struct agent_lang){.number = i};
        r = langs[i]->attach(p, e);
        if (r > 0)
            p->lang = langs[i];
        p->lang_refused = r == -ENOTSUP;
        p->lang_in_bpf = r == 1;
        if (r)
            return r;
    }
    return 0;
}

int lang_ask(struct object *o, uint32_t number, const struct lang_question *q, void *ret, size_t n)
{
    struct file_request request = {.op = FILE_LANG, .lang = number, .lang_question = *q};
    struct file_answer a;
    int r = object_ask(o, &request, -1, &a, NULL);

    if (r >= 0)
        memcpy(ret, a.lang, n);
    return r;
}

uint32_t lang_frames(struct process *p, const struct lang_stack *s, uint32_t n_lang)
{
    uint64_t *to = s->words + s->n + n_lang;

    if (!p->lang || !p->lang->frame)
        return n_lang;
    for (uint32_t i = s->from; i < s->n; i++) {
        if (!s->fps[i] || !p->lang->frame(p, s->memory, s->words[i], s->fps[i], to))
            continue;
        to[1] |= (uint64_t) i << LANG_PLACE_SHIFT;
        to += AGENT_LANG_WORDS;
    }
    return (uint32_t) (to - (s->words + s->n));
}

uint32_t lang_read(struct processes *s, struct process *p, uint32_t tid, uint64_t sp, uint64_t *words)
{
    struct lang_thread th = {.words = words};
    struct arena a;
    uint64_t tp;

    if (p->exited || !p->maps_read)
        return 0;
    if (p->stale) { /* mappings are new */
        for (uint32_t i = 0; i < p->n_mappings; i++)
            processes_resolve(s, p, &p->mappings[i]);
        if (!p->lang)
            lang_find(p, NULL);
        p->stale = false;
    }
    tp = p->lang && p->lang->thread_pointer ? p->lang->thread_pointer(p, tid, sp) : 0;
    if (!tp)
        return 0;
    arena_init(&a, ARENA_BYTES);
    p->lang->thread(p, tp, &a, &th);
    arena_done(&a);
    return th.n_words;
}
