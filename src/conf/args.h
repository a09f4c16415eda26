/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Command-line options defined by a table, which both the parser and --help use.
 *
 *     static const struct arg args[] = {
 *         {'d', "duration", ARG_DURATION, offsetof(struct opts, duration), "TIME", "how long (default 30s)"},
 *         {0},
 *     };
 *     r = args_parse(args, &opts, argc, argv, &rest, &e);
 *
 * A value of the form "this|that" is the list of the words that the option takes; others are refused.
 *
 * --name VALUE, --name=VALUE, -n VALUE, -nVALUE, --no-name for flags; -- ends options. A repeated ARG_LIST collects its
 * values.
 */
#ifndef CONF_ARGS_H
#define CONF_ARGS_H

#include <stdbool.h>
#include <stdio.h>

#include "base/err.h"

enum arg_kind {
    ARG_FLAG,     /* bool */
    ARG_STRING,   /* const char * */
    ARG_LIST,     /* struct arg_list */
    ARG_INT,      /* int64_t */
    ARG_DOUBLE,   /* double */
    ARG_DURATION, /* int64_t nanoseconds */
    ARG_TIME,     /* const char *, a point in time that clock_parse() reads: now-1h, RFC 3339, Unix time */
    ARG_SIZE,     /* int64_t bytes: 512, 64k, 10MiB, 1G */
};

struct arg {
    char letter; /* 0 = none */
    const char *name;
    enum arg_kind kind;
    size_t offset;     /* in the options struct */
    const char *value; /* placeholder of the value in help; NULL for flags */
    const char *help;
};

enum { ARG_LIST_MAX = 256 };

struct arg_list {
    const char *v[ARG_LIST_MAX];
    size_t n;
};

/* Parses options. Arguments that are not options, and all after "--", are moved to the front of argv; *ret_n is their
 * number, 0 on failure. An unknown option is an error whose message names the closest known one. */
int args_parse(const struct arg *table, void *options, int argc, char **argv, int *ret_n, struct err *e);
/* The same for a command line that ends in another: parsing stops at the first argument that is not an option. */
int args_parse_leading(const struct arg *table, void *options, int argc, char **argv, int *ret_n, struct err *e);
/* Prints the option lines of a help text, and text of a help text, in lines of at most 80 columns. A paragraph of text is one
 * line; in a line with two columns, which two spaces separate, the second is filled. */
void args_help(const struct arg *table, FILE *out);
void args_text(const char *text, FILE *out);

#endif
