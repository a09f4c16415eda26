/* SPDX-License-Identifier: Apache-2.0 */
/* Recognises Python programs and records them from outside (run_python.h). */
#include "record/run_python.h"

#include <fcntl.h>
#include <linux/perf_event.h>
#include <string.h>

#include "agent/perf_open.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "record/record_run.h"
#include "record/run_program.h"

enum { RATE = 100 }; /* as libwick's */

static struct str base_name(struct str path)
{
    for (uint32_t i = path.n; i > 0; i--)
        if (path.p[i - 1] == '/')
            return str_slice(path, i, path.n);
    return path;
}

/* The interpreter in the first line of a script; for `#!/usr/bin/env -S python3` the command after env. */
static struct str interpreter_of(struct str line)
{
    struct str word = str_cut(&line, ' ');

    if (!str_is(base_name(word), "env"))
        return word;
    do {
        line = str_trim(line);
        word = str_cut(&line, ' ');
    } while (word.n && word.p[0] == '-');
    return word;
}

bool run_python_is(const char *path)
{
    _cleanup_(fd_closep) int fd = fd_open(AT_FDCWD, path, O_RDONLY, 0);
    struct str program = str_from(path);
    char line[256] = "";

    if (str_starts(base_name(program), STR("python"))) /* also a script that starts one, such as pyenv's */
        return true;
    if (fd >= 0 && fd_pread(fd, line, sizeof line - 1, 0) >= 2 && line[0] == '#' && line[1] == '!') {
        struct str rest = str_from(line + 2);

        program = interpreter_of(str_trim(str_cut(&rest, '\n')));
    }
    return str_starts(base_name(program), STR("python"));
}

static bool kernel_allows(void)
{
    struct perf_event_attr attr = {.size = sizeof attr,
                                   .type = PERF_TYPE_SOFTWARE,
                                   .config = PERF_COUNT_SW_CPU_CLOCK,
                                   .sample_period = NS_PER_S,
                                   .exclude_kernel = 1,
                                   .disabled = 1};
    _cleanup_(fd_closep) int fd = perf_open(&attr, 0, -1);

    return fd >= 0;
}

bool run_python_can_record(const struct run_options *o)
{
    return o->output && !o->export && !o->pprof && (!o->types || strcmp(o->types, "cpu") == 0) && kernel_allows();
}

int run_python_record(const struct run_options *o, char **argv, int *ret_status, struct err *e)
{
    struct record_options record = {
        .watch.rate = o->rate == RUN_UNSET ? RATE : o->rate, .output = o->output, .quiet = true, .tell_written = true};
    int n = 0, r;

    while (argv[n])
        n++;
    r = record_check(&record, n, e);
    return r < 0 ? r : record_run(&record, n, argv, ret_status, e);
}
