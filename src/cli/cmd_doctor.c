/* SPDX-License-Identifier: Apache-2.0 */
/* wick doctor: prints one line per check with its fix, and a verdict; or a plan (doctor_plan.h). Exits with 1 if something does
 * not work at all. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/json.h"
#include "cli/command.h"
#include "conf/args.h"
#include "host/doctor.h"
#include "host/doctor_plan.h"

struct doctor_options {
    const char *plan;
    bool json, help;
};

static const struct arg doctor_args[] = {
    {0, "plan", ARG_STRING, offsetof(struct doctor_options, plan), "KEY=VALUE,...",
     "instead of checking, say what a server needs for a fleet: hosts=500,cores=16,busy=30 (of the CPU, in percent),rate=19,keep=30d,detail=7d"},
    {0, "json", ARG_FLAG, offsetof(struct doctor_options, json), NULL, "print JSON"},
    {'h', "help", ARG_FLAG, offsetof(struct doctor_options, help), NULL, "show this help"},
    {0},
};

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

/* The first check of a group that says "does not work"; for sampling, also that of the agent itself if it is limited. */
struct doctor_worst {
    const struct doctor_check *check[2]; /* of sampling, of the server */
    struct doctor_result result[2];
    unsigned notes;
    bool bad;
};

static void add_verdict(struct doctor_worst *w, const struct doctor_check *c, const struct doctor_result *r)
{
    int group = strcmp(c->group, "serve") == 0;

    w->notes += r->verdict == DOCTOR_NOTE;
    w->bad |= r->verdict == DOCTOR_BAD;
    if (w->check[group] || r->verdict == DOCTOR_OK || (r->verdict != DOCTOR_BAD && c != doctor_agent))
        return;
    w->check[group] = c;
    w->result[group] = *r;
}

static void put_verdict(struct buf *out, const struct doctor_worst *w)
{
    const struct doctor_result *r = w->check[1] ? &w->result[1] : &w->result[0];

    buf_puts(out, "\nVerdict: ");
    if (w->check[1])
        buf_puts(out, "wick serve does not run here");
    else if (w->check[0])
        buf_puts(out, "wick serve runs here and keeps what others send, but does not sample this machine");
    else
        buf_puts(out, "wick serve runs here, and samples this machine");
    if (w->check[0] || w->check[1])
        buf_printf(out, ": %s%s%s", r->state, r->fix[0] ? " -> " : "", r->fix);
    if (w->notes)
        buf_printf(out, "; %u note%s above", w->notes, w->notes == 1 ? "" : "s");
    buf_putc(out, '\n');
}

/* Returns true if a check says that something does not work. */
static bool run_checks(bool json, struct buf *out)
{
    static const struct doctor_check *const lists[] = {doctor_system, doctor_agent, doctor_serve};
    struct doctor_worst worst = {0};
    bool outer = true;

    if (json)
        buf_putc(out, '[');
    for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
        for (const struct doctor_check *c = lists[i]; c->name; c++) {
            struct doctor_result result = {.verdict = DOCTOR_NOTE, .state = "unknown"};

            c->run(&result);
            add_verdict(&worst, c, &result);
            if (json)
                put_json(out, &outer, c, &result);
            else
                put_line(out, c, &result);
        }
    if (json)
        buf_puts(out, "]\n");
    else
        put_verdict(out, &worst);
    return worst.bad;
}

static int doctor_run(int argc, char **argv)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    struct doctor_options o = {0};
    struct err e = {0};
    bool bad = false;
    int n, r = args_parse(doctor_args, &o, argc - 1, argv + 1, &n, &e);

    if (o.help) {
        args_text(
            "usage: wick doctor [--json]\n"
            "       wick doctor --plan hosts=N[,...] [--json]\n\n"
            "Checks whether the agent and the server can run on this machine: one line per check, with a fix, and a verdict. "
            "'note' marks a limitation; if a check is 'BAD', the exit status is 1.\n\n",
            stdout);
        args_help(doctor_args, stdout);
        return EXIT_DONE;
    }
    if (r == 0 && n)
        r = err_set(&e, -EINVAL, "unexpected argument '%s'", argv[1]);
    if (r == 0 && o.plan)
        r = doctor_plan(str_from(o.plan), o.json, &out, &e);
    if (r < 0)
        return command_misused("doctor", "%s", e.message);
    if (!o.plan)
        bad = run_checks(o.json, &out);
    return fd_write_file("-", out.p, out.n, NULL) < 0 || bad ? EXIT_FAILED : EXIT_DONE;
}

const struct command command_doctor = {"doctor", "check this machine and suggest fixes", doctor_run};
