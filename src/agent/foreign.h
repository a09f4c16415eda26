/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runtimes whose functions are not shown: their processes have native frames alone, of an interpreter that runs something
 * else. How much CPU time that is has to be said, or the picture is believed.
 */
#ifndef AGENT_FOREIGN_H
#define AGENT_FOREIGN_H

#include "base/str.h"

struct process;

enum foreign {
    FOREIGN_UNKNOWN,
    FOREIGN_NONE,
    FOREIGN_RUBY,
    FOREIGN_PHP,
    FOREIGN_PERL,
    FOREIGN_LUA,
    FOREIGN_PYTHON,
    FOREIGN_KINDS
};

/* "PHP". For FOREIGN_RUBY and those after it. */
const char *foreign_name(enum foreign f);
/* By its executable and the libraries that it has mapped. has_lang: one of lang.h's was found in it. */
enum foreign foreign_find(const struct process *p, bool has_lang);
/* By the name of one file. */
enum foreign foreign_of_file(struct str path);

#endif
