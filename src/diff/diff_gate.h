/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The conditions of `wick diff --fail-if`:
 *
 *     total("main\.parse") > +2pt      the share of stacks with a frame that matches grew by more than 2 points
 *     self("memcpy|memmove") > +10%    the functions themselves cost over 10 % more per second (or per profile)
 *     total("gc") > 30pt               their share in NEW is over 30 %: without a sign, it is about NEW alone
 *     total > +0.5cores                everything, in cores; or s, ms, us, ns; B, kB, MB, GB; or a plain number
 *
 * Comparisons are > >= < <=. The expression in quotes is a regular expression (RE2) that matches anywhere in the name of
 * a function. One that matches no function of either side is an error: a misspelt condition must not pass.
 *
 * With two or more profiles on both sides, a condition on a change fails only if the change is significant (Welch's t, alpha),
 * and passes only if its interval does not reach the limit; anything else is inconclusive. Profiles of one side are taken to be
 * independent. Single profiles are compared as they are.
 */
#ifndef DIFF_DIFF_GATE_H
#define DIFF_DIFF_GATE_H

#include "base/regex.h"
#include "diff/diff_load.h"

enum diff_measure { DIFF_POINTS, DIFF_PERCENT, DIFF_CORES, DIFF_VALUE };

enum diff_outcome { DIFF_PASSED, DIFF_INCONCLUSIVE, DIFF_FAILED };

struct diff_gate {
    const char *text; /* as given */
    bool self;
    struct regex *regex; /* NULL: everything */
    char compare[3];
    bool change; /* the limit has a sign: the change from OLD to NEW, else the value in NEW */
    double limit;
    enum diff_measure measure;
    double scale;     /* of the limit's unit, for DIFF_VALUE */
    const char *unit; /* as it is printed */
    /* the result */
    double before, now; /* in the unit of the limit; shares for points */
    double value;       /* what was compared with the limit */
    double p;           /* of the change; NAN: not tested */
    double reach;       /* how far the value may be from the truth, in its unit; NAN: not tested */
    bool matched;       /* a function of either side */
    enum diff_outcome outcome;
};

/* Parses an expression; the message of an error points at the place. */
int diff_gate_parse(const char *text, struct diff_gate *ret, struct err *e);
void diff_gate_done(struct diff_gate *g);
/* "passed", "inconclusive", "failed". */
const char *diff_outcome_name(enum diff_outcome o);
/* Evaluates it. -EINVAL if the profiles lack what it needs (durations for cores), or no function matches. */
int diff_gate_run(struct diff_gate *g, const struct diff_input *in, double alpha, struct err *e);

#endif
