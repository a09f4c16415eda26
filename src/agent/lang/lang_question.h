/* SPDX-License-Identifier: Apache-2.0 */
/* A question of a language about a binary: see read_file() in lang.h. */
#ifndef AGENT_LANG_QUESTION_H
#define AGENT_LANG_QUESTION_H

#include <stdint.h>

enum { LANG_ANSWER_BYTES = 512 };

struct lang_question {
    uint32_t op;       /* the language's own numbers */
    uint64_t argument; /* likewise */
};

#endif
