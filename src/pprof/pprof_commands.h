/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of `wick pprof`: formats of its command line and commands of its shell, with their help. */
#ifndef PPROF_PPROF_COMMANDS_H
#define PPROF_PPROF_COMMANDS_H

#include "base/buf.h"
#include "report/report.h"

enum pprof_post { POST_NONE, POST_DOT, POST_SVG }; /* post-processed by graphviz; an SVG also gets its script */
enum pprof_show { SHOW_STDOUT, SHOW_FILE, SHOW_VIEWER, SHOW_BROWSER };

struct pprof_command {
    const char *name;
    enum report_format format;
    bool has_argument;
    enum pprof_post post;
    const char *dot_format; /* POST_DOT: the format for `dot -T` */
    enum pprof_show show;
    const char *suffix; /* suffix of the file that is written if stdout is a terminal, or that a viewer opens */
    const char *viewer; /* SHOW_VIEWER: the program and its arguments */
    const char *description;
    enum { USAGE_NONE, USAGE_REPORT, USAGE_LIST, USAGE_PEEK, USAGE_TAGS } usage;
    bool usage_cum, usage_file; /* which lines the usage text has */
};

const struct pprof_command *pprof_command_find(struct str name);
const struct pprof_command *pprof_commands_all(size_t *ret_n);
/* Help of one command. */
void pprof_command_help(const struct pprof_command *c, struct buf *out);
/* All commands and options; command_line puts a dash before them. */
void pprof_usage(bool command_line, struct buf *out);
/* The whole help of the command line. */
void pprof_help(struct buf *out);

#endif
