/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wick diff OLD NEW: compares profiles, and with --fail-if is a gate for CI. The exit status is 0 if no condition
 * holds, 1 if one of them does, 3 if the profiles differ too much among themselves to decide (--inconclusive makes that
 * 0 or 1), and 2 if they could not be compared, so that a gate that cannot decide is not mistaken for one that passed or
 * failed.
 */
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "cli/command.h"
#include "conf/args.h"
#include "diff/diff_print.h"

enum { GATES_MAX = 64, ROWS_DEFAULT = 20, EXIT_INCONCLUSIVE = 3 };

struct diff_options {
    struct arg_list fail_if;
    const char *type, *output, *inconclusive;
    struct ask_target target;
    int64_t limit;
    double alpha;
    bool json, markdown, help;
};

static const struct arg diff_args[] = {
    {0, "fail-if", ARG_LIST, offsetof(struct diff_options, fail_if), "CONDITION",
     "exit with status 1 if it holds; may be given several times"},
    {0, "inconclusive", ARG_STRING, offsetof(struct diff_options, inconclusive), "pass|fail",
     "what a condition counts as that the profiles cannot decide (default: neither, exit status 3)"},
    {'t', "type", ARG_STRING, offsetof(struct diff_options, type), "NAME",
     "sample type to compare (default: the default of the first profile)"},
    {0, "alpha", ARG_DOUBLE, offsetof(struct diff_options, alpha), "P",
     "with several profiles a side, a change counts if its p is below this (default: 0.05)"},
    {0, "limit", ARG_INT, offsetof(struct diff_options, limit), "N", "maximum number of functions (default: 20)"},
    {0, "markdown", ARG_FLAG, offsetof(struct diff_options, markdown), NULL, "print Markdown, for a pull request"},
    {0, "json", ARG_FLAG, offsetof(struct diff_options, json), NULL, "print JSON"},
    {'o', "output", ARG_STRING, offsetof(struct diff_options, output), "FILE",
     "write to this file instead of standard output"},
    {0, "token", ARG_STRING, offsetof(struct diff_options, target.token), "TOKEN",
     "token for the server of a wick:// selection (default: $WICK_TOKEN)"},
    {'h', "help", ARG_FLAG, offsetof(struct diff_options, help), NULL, "show this help"},
    {0},
};

static void diff_help(void)
{
    args_text(
        "usage: wick diff OLD NEW [--fail-if CONDITION]... [options]\n"
        "\n"
        "OLD and NEW are profiles in any format that wick reads, or selections such as "
        "wick://localhost:4040/checkout?from=now-1h&service.version=1.2; several of them, with commas between, are "
        "tested for significance.\n"
        "\n"
        "conditions:\n"
        "  total(\"main\\.parse\") > +2pt    stacks with a function that matches take over 2 points more of the whole\n"
        "  self(\"^memcpy$\") > +10%        the functions themselves cost over 10 % more per second (without durations: per profile)\n"
        "  total(\"gc\") > 30pt             they take over 30 % of NEW: without a sign it is about NEW alone\n"
        "  total > +0.5cores              everything; units: pt, %, cores, s, ms, us, ns, B, kB, MB, GB, or none\n"
        "\n"
        "The exit status is 1 if a condition holds, 3 if the profiles cannot decide one, and 2 if they could not be "
        "compared or a condition matches no function.\n"
        "\n"
        "options:\n", stdout);
    args_help(diff_args, stdout);
}

static int print_result(const struct diff_options *o, const struct diff_result *d, struct err *e)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    int r = 0;

    if (o->json)
        diff_print_json(d, &out);
    else if (o->markdown)
        diff_print_markdown(d, &out);
    else
        r = diff_print_text(d, &out);
    if (r == 0)
        r = buf_error(&out);
    if (r < 0)
        return r;
    if (o->output || o->json)
        return fd_write_file(o->output ? o->output : "-", out.p, out.n, e);
    return command_print(&out);
}

/* Returns the worst outcome of the conditions. */
static int compare(const struct diff_options *o, char **sources, struct diff_gate *gates, struct err *e)
{
    _cleanup_(diff_input_done) struct diff_input in = {0};
    _cleanup_(diff_rows_done) struct diff_rows rows = {0};
    struct diff_result d = {.old = sources[0],
                            .new = sources[1],
                            .in = &in,
                            .rows = &rows,
                            .gates = gates,
                            .n_gates = (uint32_t) o->fail_if.n,
                            .limit = (uint32_t) o->limit};
    int r = diff_load(sources[0], sources[1], o->type, &o->target, &in, e);

    if (r == 0)
        r = diff_rows(&in, &rows);
    for (size_t i = 0; r == 0 && i < o->fail_if.n; i++) {
        r = diff_gate_run(&gates[i], &in, o->alpha, e);
        d.outcome = MAX(d.outcome, gates[i].outcome);
    }
    if (r == 0)
        r = print_result(o, &d, e);
    return r < 0 ? r : (int) d.outcome;
}

static int exit_status(const struct diff_options *o, enum diff_outcome outcome)
{
    if (outcome == DIFF_INCONCLUSIVE && !o->inconclusive)
        return EXIT_INCONCLUSIVE;
    if (outcome == DIFF_INCONCLUSIVE)
        return strcmp(o->inconclusive, "pass") == 0 ? EXIT_DONE : EXIT_FAILED;
    return outcome == DIFF_FAILED ? EXIT_FAILED : EXIT_DONE;
}

static int diff_run(int argc, char **argv)
{
    struct diff_options o = {.limit = ROWS_DEFAULT, .alpha = 0.05};
    struct diff_gate gates[GATES_MAX] = {{0}};
    struct err e = {0};
    int n, r = args_parse(diff_args, &o, argc - 1, argv + 1, &n, &e);
    bool parsed;

    if (o.help) {
        diff_help();
        return EXIT_DONE;
    }
    if (r < 0 || n != 2)
        return command_misused("diff", "%s", r < 0 ? e.message : "OLD and NEW are required");
    if (o.limit < 0 || o.limit > 1000000 || !(o.alpha > 0 && o.alpha < 1))
        return command_misused("diff", "--limit must be 0 to 1000000, and --alpha between 0 and 1");
    if (o.fail_if.n > GATES_MAX)
        return command_misused("diff", "more than %d conditions", GATES_MAX);
    for (size_t i = 0; r == 0 && i < o.fail_if.n; i++)
        r = diff_gate_parse(o.fail_if.v[i], &gates[i], &e);
    parsed = r == 0;
    if (parsed)
        r = compare(&o, argv + 1, gates, &e);
    for (size_t i = 0; i < o.fail_if.n && i < GATES_MAX; i++)
        diff_gate_done(&gates[i]);
    if (!parsed)
        return command_misused("diff", "%s", e.message);
    if (r < 0) {
        command_end("diff", r, &e);
        return EXIT_USAGE;
    }
    return exit_status(&o, (enum diff_outcome) r);
}

const struct command command_diff = {"diff", "compare profiles; a gate for CI with --fail-if", diff_run};
