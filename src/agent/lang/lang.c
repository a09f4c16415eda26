/* SPDX-License-Identifier: Apache-2.0 */
/* The languages of langs.h, and what they have in common: see lang.h. */
#include "agent/lang/lang.h"

#include <string.h>

#include "agent/reader/file_reader.h"

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
