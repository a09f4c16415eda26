/* SPDX-License-Identifier: Apache-2.0 */
/* Exit statuses, error messages and subcommands shared by all commands (command.h). */
#include "cli/command.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/printable.h"
#include "base/str.h"

/* Nobody reads standard output any more, as after `| head`: no error. */
static bool is_reader_gone(void)
{
    struct pollfd p = {.fd = STDOUT_FILENO};

    return poll(&p, 1, 0) == 1 && p.revents & POLLERR;
}

int command_end(const char *name, int r, const struct err *e)
{
    if (r == -EPIPE && is_reader_gone()) {
        signal(SIGPIPE, SIG_DFL);
        raise(SIGPIPE);
    }
    if (r < 0)
        fprintf(stderr, "wick %s: %s\n", name, err_message(e, r));
    return r ? EXIT_FAILED : EXIT_DONE;
}

int command_print(const struct buf *text)
{
    _cleanup_(buf_done) struct buf safe = BUF_INIT;

    if (buf_error(text))
        return buf_error(text);
    printable_put(&safe, buf_str(text), true);
    return buf_error(&safe) ? buf_error(&safe) : fd_write_all(STDOUT_FILENO, safe.p ? safe.p : "", safe.n);
}

int command_misused(const char *name, const char *fmt, ...)
{
    char message[ERR_MESSAGE_MAX];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    if (strstr(message, "--help") || strstr(message, "did you mean")) /* the message already mentions it */
        fprintf(stderr, "wick %s: %s\n", name, message);
    else
        fprintf(stderr, "wick %s: %s; see wick %s --help\n", name, message, name);
    return EXIT_USAGE;
}

int command_verb(const char *name, const struct command_verb *verbs, const void *options, int argc, char **argv)
{
    struct str_guess guess = {str_from(argc ? argv[0] : ""), NULL, 0};
    struct err e = {0};

    if (argc < 1)
        return command_misused(name, "a subcommand is required");
    for (const struct command_verb *v = verbs; v->name; v++) {
        if (strcmp(argv[0], v->name) != 0)
            continue;
        if (argc - 1 > v->max)
            return command_misused(name, "%s: unexpected argument '%s'", v->name, argv[1 + v->max]);
        if (argc - 1 < v->min)
            return command_misused(name, "%s requires %s", v->name, v->takes);
        return command_end(name, v->run(options, argc - 1, argv + 1, &e), &e);
    }
    for (const struct command_verb *v = verbs; v->name; v++)
        str_guess_offer(&guess, v->name);
    if (guess.best)
        return command_misused(name, "unknown subcommand '%s'; did you mean '%s'?", argv[0], guess.best);
    return command_misused(name, "unknown subcommand '%s'", argv[0]);
}
