/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runtimes whose functions are not shown: samples of their processes have only the native frames of the interpreter.
 * The CPU time of such processes is reported, so that the user does not take the interpreter's frames for the
 * program's.
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
/* Finds the runtime by the process's executable and its mapped libraries. FOREIGN_UNKNOWN: not known yet,
 * ask again. */
enum foreign foreign_find(const struct process *p);
/* By the name of one file. */
enum foreign foreign_of_file(struct str path);

#endif
