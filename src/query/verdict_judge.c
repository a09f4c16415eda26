/* SPDX-License-Identifier: Apache-2.0 */
/* Decides a verdict (verdict_judge.h), and writes the sentence and the headline that describe it. */
#include "query/verdict_judge.h"

#include <math.h>
#include <stdio.h>

#include "base/clock.h"

enum { CAUSE_TEXT = 160 };
#define COST_MIN 0.01 /* smaller changes of the cost of the same work do not decide */
#define LIKELY_POINTS 5
#define TOTAL_MIN 0.02 /* nor are smaller changes of the total mentioned */
#define TOTAL_DECIDES 0.05
#define SAME_COST 0.05                         /* what "same" may differ by */
#define SAME_TIMES 2.5                         /* the same in points, as a multiple of the smallest drift to report */
static const int64_t SEEN_MIN = 60 * NS_PER_S; /* of profiles, on both sides */

const char *const verdict_names[] = {"not enough data", "same", "worse", "better", NULL};

/* --- what changed --- */

/* Whether a function only got another name: it is on one side only, and another one, as large, on the other side. */
static bool is_renamed(const struct drift_answer *d, const struct drift_row *r)
{
    const double none = 0.0005;

    for (uint32_t i = 0; i < d->n_all && fmin(r->before, r->now) < none; i++) {
        const struct drift_row *o = &d->rows[i];

        if (r->before < none ? o->now < none && o->before >= 0.9 * r->now
                             : o->before < none && o->now >= 0.9 * r->before)
            return true;
    }
    return false;
}

/* Which functions may be named as the cause. */
enum cause_of { CAUSE_SURE, CAUSE_RENAMED, CAUSE_LIKELY };

static bool is_cause(const struct drift_answer *d, const struct drift_row *r, double sign, enum cause_of of)
{
    return r->points * sign > 0 && (of == CAUSE_LIKELY || r->significant) && (of == CAUSE_RENAMED || !is_renamed(d, r));
}

/* The function to name: of those that changed about as much as the largest, the one with the smallest share, since its
 * callers contain its change. */
static const struct drift_row *find_cause(const struct drift_answer *d, double sign, enum cause_of of)
{
    const struct drift_row *best = NULL;
    double most = 0;

    for (uint32_t i = 0; i < d->n_all; i++)
        if (is_cause(d, &d->rows[i], sign, of))
            most = fmax(most, d->rows[i].points * sign);
    for (uint32_t i = 0; i < d->n_all; i++)
        if (is_cause(d, &d->rows[i], sign, of) && d->rows[i].points * sign >= 0.9 * most &&
            (!best || fmin(d->rows[i].now, d->rows[i].before) < fmin(best->now, best->before)))
            best = &d->rows[i];
    return best;
}

const struct drift_row *verdict_cause(const struct drift_answer *d, double sign)
{
    const struct drift_row *r = find_cause(d, sign, CAUSE_SURE);

    return r ? r : find_cause(d, sign, CAUSE_RENAMED);
}

static double largest(const struct drift_answer *d, double sign)
{
    const struct drift_row *r = find_cause(d, sign, CAUSE_SURE);

    return r ? fabs(r->points) : 0;
}

double verdict_total_change(const struct verdict_answer *v)
{
    const struct drift_answer *d = &v->drift;

    return d->cores[0] > 0 && d->cores[1] > 0 ? d->cores[1] / d->cores[0] - 1 : 0;
}

/* --- the decision --- */

/* Whether no function changed by more than so many points: intervals count, not estimates. Functions that are too small to be
 * tested cannot have. */
static bool functions_are_same(const struct drift_answer *d, double points)
{
    for (uint32_t i = 0; i < d->n_all; i++) {
        const struct drift_row *r = &d->rows[i];
        bool tested = r->low > -100 || r->high < 100;

        if (tested && (r->low < -points || r->high > points))
            return false;
    }
    return d->minimum_detectable_points <= points;
}

/* By the interval of the cost. VERDICT_UNKNOWN: it decides nothing. */
static enum verdict judge_cost(const struct verdict_answer *v, double least)
{
    if (v->cost_low > -SAME_COST && v->cost_high < SAME_COST && fabs(v->cost_change) < least)
        return VERDICT_SAME;
    if (v->cost_low > 0 && v->cost_change >= least)
        return VERDICT_WORSE;
    return v->cost_high < 0 && v->cost_change <= -least ? VERDICT_BETTER : VERDICT_UNKNOWN;
}

/*
 * Per CPU-second without an estimate of the cost of the same work: the larger of the largest gain and loss, if one is clearly
 * larger; else the total.
 */
static enum verdict judge_functions(const struct verdict_answer *v)
{
    const struct drift_answer *d = &v->drift;
    double up = largest(d, 1), down = largest(d, -1), total = verdict_total_change(v);

    if (fabs(up - down) > 0.25 * fmax(up, down))
        return up > down ? VERDICT_WORSE : VERDICT_BETTER;
    if (v->overlap || fabs(total) < TOTAL_DECIDES)
        return VERDICT_UNKNOWN;
    return total > 0 ? VERDICT_WORSE : VERDICT_BETTER;
}

static bool is_seen(const struct verdict_answer *v)
{
    return MIN(v->drift.covered_ns[0], v->drift.covered_ns[1]) >= SEEN_MIN;
}

static enum verdict judge(const struct verdict_answer *v, double min)
{
    const struct drift_answer *d = &v->drift;

    if (!is_seen(v))
        return VERDICT_UNKNOWN;
    if (v->per_request)
        return judge_cost(v, min / 100);
    if (!d->significant)
        return functions_are_same(d, SAME_TIMES * min) ? VERDICT_SAME : VERDICT_UNKNOWN;
    return v->cost_known ? judge_cost(v, COST_MIN) : judge_functions(v);
}

/* --- text --- */

static void put_row(char *to, size_t n, const struct drift_row *r, const char *unit)
{
    double sure = 100 * (1 - r->p);

    snprintf(to, n, "%.*s %+.1f points, %+.2f %s, confidence %s%.*f %%", STR_FMT(str_slice(r->function, 0, 80)),
             r->points, r->cores, unit, sure > 99.9 ? "> " : "", sure > 99 ? 1 : 0, fmin(sure, 99.9));
}

/* The cost of a request is known sooner than the function that changed it. */
static void put_likely(char *to, size_t n, const struct drift_row *r)
{
    if (r && fabs(r->points) >= LIKELY_POINTS)
        snprintf(to, n, "probably %.*s %+.1f points, too little data yet to be sure",
                 STR_FMT(str_slice(r->function, 0, 80)), r->points);
    else
        snprintf(to, n, "too little data yet to name the function");
}

/* "+18 % to +32 %" */
static void put_interval(const struct verdict_answer *v, char *to, size_t size)
{
    bool fine = fmax(fabs(v->cost_low), fabs(v->cost_high)) < 0.1;

    snprintf(to, size, "%+.*f %% to %+.*f %%", fine, 100 * v->cost_low, fine, 100 * v->cost_high);
}

static void put_note(struct verdict_answer *v)
{
    double total = verdict_total_change(v);
    const char *why = v->overlap       ? "the versions had different numbers of instances or requests"
                      : v->per_request ? "the number of requests changed"
                                       : "the load changed, or more than these functions did";

    if ((v->verdict == VERDICT_BETTER && total > TOTAL_MIN) || (v->verdict == VERDICT_WORSE && total < -TOTAL_MIN))
        snprintf(v->note, sizeof v->note, "%s", why);
}

/* What the change of a request or of the same work is, and by what the verdict is normalised; and why the total says
 * otherwise, if it does. */
static void put_cost(const struct verdict_answer *v, char *to, size_t size)
{
    char interval[80];
    int n = 0;

    put_interval(v, interval, sizeof interval);
    if (v->verdict == VERDICT_UNKNOWN) {
        if (v->per_request)
            snprintf(to, size, "; a request costs %+.1f %% (%s), confidence %.0f %%", 100 * v->cost_change, interval,
                     100 * (1 - v->cost_p));
        return;
    }
    if (v->per_request || (v->drift.significant && v->cost_known))
        n = snprintf(to, size, "; %s costs %+.1f %% (%s)", v->per_request ? "a request" : "the same work",
                     100 * v->cost_change, interval);
    n += snprintf(to + n, size - (size_t) n, " (normalised per %s)", v->per_request ? "request" : "CPU-second");
    if (v->note[0])
        snprintf(to + n, size - (size_t) n, "; the whole uses %+.1f %% CPU: %s", 100 * verdict_total_change(v),
                 v->note);
}

/* Why there is no verdict. */
static void put_missing(const struct verdict_answer *v, char *to, size_t size)
{
    const int64_t *seen = v->drift.covered_ns;

    if (v->reason)
        snprintf(to, size, "%s", v->reason);
    else if (!is_seen(v))
        snprintf(to, size,
                 "only %.0f s of the version before and %.0f s of this one were profiled; %.0f s of both are required",
                 (double) seen[0] / NS_PER_S, (double) seen[1] / NS_PER_S, (double) SEEN_MIN / NS_PER_S);
    else
        snprintf(to, size, "only changes of %.1f points or more would be seen yet", v->drift.minimum_detectable_points);
}

static void put_sentence(struct verdict_answer *v)
{
    char text[CAUSE_TEXT + 80] = "", cost[240] = "";
    const struct drift_answer *d = &v->drift;
    const struct drift_row *row = verdict_cause(d, v->verdict == VERDICT_BETTER ? -1 : 1);
    const char *unit = str_is(d->unit, "nanoseconds") ? "cores" : "per second";

    row = row ? row : verdict_cause(d, v->verdict == VERDICT_BETTER ? 1 : -1);
    if (v->verdict == VERDICT_UNKNOWN && (!row || !is_seen(v)))
        put_missing(v, text, sizeof text);
    else if (row)
        put_row(text, sizeof text, row, unit);
    else if (v->verdict == VERDICT_SAME)
        snprintf(text, sizeof text, "no function changed by %.1f points or more", d->minimum_detectable_points);
    else
        put_likely(text, sizeof text, find_cause(d, v->verdict == VERDICT_BETTER ? -1 : 1, CAUSE_LIKELY));
    put_cost(v, cost, sizeof cost);
    snprintf(v->sentence, sizeof v->sentence, "%.*s %.*s%s%.*s: %s%s: %s%s", STR_FMT(str_slice(v->service, 0, 60)),
             STR_FMT(str_slice(v->previous, 0, 40)), v->previous.n ? " → " : "", STR_FMT(str_slice(v->version, 0, 40)),
             verdict_names[v->verdict], v->rollback ? " (rollback)" : "", text, cost);
}

/* "costs 25 % more CPU per request", "costs 3.0 times the CPU for the same work"; where neither is known, what the function takes. */
static void put_headline(struct verdict_answer *v)
{
    const char *of = v->per_request ? "per request" : "for the same work";
    double change = v->cost_change;

    if (v->cost_known && change >= 0.995)
        snprintf(v->headline, sizeof v->headline, "costs %.1f times the CPU %s", change + 1, of);
    else if (v->cost_known)
        snprintf(v->headline, sizeof v->headline, "costs %.*f %% %s CPU %s", fabs(change) < 0.1, 100 * fabs(change),
                 change > 0 ? "more" : "less", of);
    else if (v->cause)
        snprintf(v->headline, sizeof v->headline, "spends %.0f %% of its CPU in %.*s, %.0f %% before",
                 100 * v->cause->now, STR_FMT(str_slice(v->cause->function, 0, 80)), 100 * v->cause->before);
    if (v->cost_known)
        put_interval(v, v->interval, sizeof v->interval);
    else if (v->cause)
        snprintf(v->interval, sizeof v->interval, "%+.1f to %+.1f points", v->cause->low, v->cause->high);
}

void verdict_judge(struct verdict_answer *v, double min_points)
{
    double cores = v->drift.cores[1];

    v->verdict = judge(v, min_points > 0 ? min_points : DRIFT_MIN_POINTS);
    if (v->verdict == VERDICT_WORSE || v->verdict == VERDICT_BETTER) {
        v->cause = verdict_cause(&v->drift, v->verdict == VERDICT_WORSE ? 1 : -1);
        v->cores_change = v->cost_known ? cores * (1 - 1 / (1 + v->cost_change))
                          : v->cause    ? cores * v->cause->points / 100
                                        : 0;
        put_headline(v);
        put_note(v);
    }
    put_sentence(v);
}
