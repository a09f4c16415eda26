/* SPDX-License-Identifier: Apache-2.0 */
/* wick doctor: prints one line per check with its fix. Exits with 1 if something does not work at all. */
#include <stdarg.h>
#include <stdio.h>

#include "base/fd.h"
#include "base/json.h"
#include "cli/command.h"
#include "conf/args.h"
#include "host/doctor.h"

struct doctor_options {
    bool json, help;
};

static const struct arg doctor_args[] = {
    {0, "json", ARG_FLAG, offsetof(struct doctor_options, json), NULL, "print JSON"},
    {'h', "help", ARG_FLAG, offsetof(struct doctor_options, help), NULL, "show this help"},
    {0},
};

void doctor_say(struct doctor_result *r, enum doctor_verdict v, const char *fix, const char *fmt, ...)
{
    va_list ap;

    r->verdict = v;
    snprintf(r->fix, sizeof r->fix, "%s", fix);
    va_start(ap, fmt);
    vsnprintf(r->state, sizeof r->state, fmt, ap);
    va_end(ap);
}

static void put_line(struct buf *out, const struct doctor_check *c, const struct doctor_result *r)
{
    static const char *const marks[] = {"ok  ", "note", "BAD "};

    buf_printf(out, "%s  %-20s %s", marks[r->verdict], c->name, r->state);
    if (r->fix[0])
        buf_printf(out, " -> %s", r->fix);
    buf_putc(out, '\n');
}

static void put_json(struct buf *out, bool *outer, const struct doctor_check *c, const struct doctor_result *r)
{
    static const char *const words[] = {"ok", "note", "bad"};
    bool first = true;

    json_sep(out, outer);
    buf_puts(out, "{");
    json_put_key_text(out, &first, "check", c->name);
    json_put_key_text(out, &first, "group", c->group);
    json_put_key_text(out, &first, "verdict", words[r->verdict]);
    json_put_key_text(out, &first, "state", r->state);
    json_put_key_text(out, &first, "fix", r->fix);
    buf_putc(out, '}');
}

static int doctor_run(int argc, char **argv)
{
    static const struct doctor_check *const lists[] = {doctor_system, doctor_serve};
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    struct doctor_options o = {0};
    struct err e = {0};
    bool bad = false, outer = true;
    int n, r = args_parse(doctor_args, &o, argc - 1, argv + 1, &n, &e);

    if (o.help) {
        fputs(
            "usage: wick doctor [--json]\n\nChecks whether the agent and the server can run on this machine: one line per check, with a "
            "fix.\n'note' marks a limitation; if a check is 'BAD', the exit status is 1.\n\n",
            stdout);
        args_help(doctor_args, stdout);
        return EXIT_DONE;
    }
    if (r == 0 && n)
        r = err_set(&e, -EINVAL, "unexpected argument '%s'", argv[1]);
    if (r < 0)
        return command_misused("doctor", "%s", e.message);
    if (o.json)
        buf_putc(&out, '[');
    for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
        for (const struct doctor_check *c = lists[i]; c->name; c++) {
            struct doctor_result result = {.verdict = DOCTOR_NOTE, .state = "unknown"};

            c->run(&result);
            bad |= result.verdict == DOCTOR_BAD;
            if (o.json)
                put_json(&out, &outer, c, &result);
            else
                put_line(&out, c, &result);
        }
    if (o.json)
        buf_puts(&out, "]\n");
    return fd_write_file("-", out.p, out.n, NULL) < 0 || bad ? EXIT_FAILED : EXIT_DONE;
}

const struct command command_doctor = {"doctor", "check this machine and suggest fixes", doctor_run};
