/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of answers, see answer_fields.h. Columns are those of the tables that `wick query` prints. */
#include "query/answer_fields.h"

#include <string.h>

#define OBJECT(table, strct)                                         \
    {                                                                \
        .kind = RECORD_ONE, .fields = (table), .size = sizeof(strct) \
    }
#define LIST(table, strct)                                            \
    {                                                                 \
        .kind = RECORD_LIST, .fields = (table), .size = sizeof(strct) \
    }
#define TYPE(strct)                                                                              \
    {"type", RECORD_STR, offsetof(strct, type), 0, "of the values"},                             \
    {                                                                                            \
        "unit", RECORD_STR, offsetof(strct, unit), 0, "of the values: nanoseconds, bytes, count" \
    }

static const char *const severities[] = {"info", "warning", NULL};

/* --- what answers begin and end with --- */

const struct record_field answer_head_fields[] = {
    TYPE(struct answer_head),
    {"total", RECORD_PAIR, offsetof(struct answer_head, total), .size = offsetof(struct answer_head, n_columns)},
    {"coverage", RECORD_PAIR, offsetof(struct answer_head, covered), .size = offsetof(struct answer_head, n_covered)},
    {0},
};

#define AT(member) offsetof(struct answer_picked, member)
static const struct record_field picked_fields[] = {
    {"selected", RECORD_U32, AT(selected)},
    {"rest", RECORD_U32, AT(rest), 0, "what they are compared with"},
    {"duration", RECORD_INT, AT(duration), 0, "of the selected, in total", .unit = UNIT_NS},
    {"threshold", RECORD_INT, AT(threshold), 0, "the shortest of the slowest", RECORD_SPARSE, UNIT_NS},
    {"oneIn", RECORD_U32, AT(one_in), 0, "only one in so many traces was looked at", .when = AT(sampled)},
    {0},
};
#undef AT

#define AT(member) offsetof(struct answer_tail, member)
static const struct record_field spool_fields[] = {
    {"bytes", RECORD_COUNT, AT(notes.spool.bytes)},
    {"seconds", RECORD_INT, AT(spool_s), 0, "age of the oldest"},
    {0},
};

static const struct record_field notes_fields[] = {
    {"coarse", RECORD_BOOL, AT(notes.coarse), 0, "edges of the range are rounded to five minutes"},
    {"damaged", RECORD_U32, AT(notes.damaged), 0, "pieces that are missing because they could not be read"},
    {"also", RECORD_BOOL, AT(notes.also), 0, "two sources sent this; it is counted once", RECORD_SPARSE},
    {"naming", RECORD_BOOL, AT(notes.naming), 0, "names are being looked up: ask again", RECORD_SPARSE},
    {"hidden", RECORD_CHARS, AT(notes.hidden), 0, "runtimes whose functions are not shown", RECORD_SPARSE,
     .size = sizeof(((struct store_notes *) 0)->hidden)},
    {"spool", RECORD_ONE, 0, 0, "what the server has received and not stored yet", .fields = spool_fields,
     .when = AT(has_spool)},
    {"damage", RECORD_CHARS, AT(notes.damage), 0, "message about the first damaged piece", RECORD_SPARSE,
     .size = sizeof(((struct store_notes *) 0)->damage)},
    {0},
};

const struct record_field answer_selected_fields[] = {
    {"spans", RECORD_ONE, AT(picked), 0, "the spans that were selected", .fields = picked_fields,
     .when = AT(picked.by_index)},
    {0},
};

const struct record_field answer_tail_fields[] = {
    {"rate", RECORD_PAIR, AT(rate), 0, "sampling rate in Hz, or the lowest and the highest", .size = AT(n_rates),
     .when = AT(has_rate)},
    {"meanRate", RECORD_NUMBER, AT(mean_rate), 4, .when = AT(has_mean_rate)},
    {"notes", RECORD_ONE, 0, 0, "what the reader has to know", .fields = notes_fields, .when = AT(has_notes)},
    {0},
};
#undef AT

bool answer_has_selected(const struct record_field *answer)
{
    for (const struct record_field *f = answer->fields; f->kind; f++)
        if (strcmp(f->name, answer_selected_fields[0].name) == 0)
            return false;
    return true;
}

static bool has_notes(const struct store_notes *n)
{
    return n->coarse || n->damaged || n->also || n->naming || n->hidden[0] || n->spool.records;
}

struct answer_tail answer_tail_of(const struct answer_request *c)
{
    const struct store_notes *n = &c->notes;
    bool varies = n->rate_min && n->rate_min != n->rate_max;
    struct answer_tail t = {.picked = c->picked,
                            .has_rate = n->rate_min,
                            .has_mean_rate = varies,
                            .has_notes = has_notes(n),
                            .has_spool = n->spool.records,
                            .rate = {n->rate_min, n->rate_max},
                            .n_rates = varies ? 2 : 1,
                            .mean_rate = n->rate_mean,
                            .notes = *n,
                            .spool_s = n->spool.age_ns / NS_PER_S};

    t.picked.sampled = c->picked.one_in > 1;
    if (!n->damaged)
        t.notes.damage[0] = 0;
    return t;
}

/* --- trees --- */

#define AT(member) offsetof(struct answer_frame, member)
static const struct record_field frame_fields[] = {
    {"function", RECORD_STR, AT(function), 0, "its name; without one: nothing", RECORD_SPARSE},
    {"systemName", RECORD_STR, AT(system_name), 0, "as the linker knows it", RECORD_SPARSE},
    {"file", RECORD_STR, AT(file), .flags = RECORD_SPARSE},
    {"line", RECORD_INT, AT(line), .flags = RECORD_SPARSE},
    {"mapping", RECORD_STR, AT(mapping), 0, "the binary", RECORD_SPARSE},
    {"buildId", RECORD_STR, AT(build_id), .flags = RECORD_SPARSE},
    {"package", RECORD_STR, AT(package), .flags = RECORD_SPARSE},
    {"address", RECORD_STR, AT(address), 0, "in the binary, hexadecimal", RECORD_SPARSE},
    {"kind", RECORD_STR, AT(kind), 0, "of the code: native, kernel, jvm …", RECORD_SPARSE},
    {"inlined", RECORD_BOOL, AT(inlined), .flags = RECORD_SPARSE},
    {0},
};
#undef AT

#define AT(member) offsetof(struct answer_tree, member)
static const struct record_field tree_fields[] = {
    TYPE(struct answer_tree),
    {"coverage", RECORD_PAIR, AT(covered), 0, "time that profiles cover", RECORD_SPARSE, UNIT_NS,
     .size = AT(n_covered)},
    {"columns", RECORD_U32, AT(n_columns), 0, "1, or 2 for a comparison: the base and the new one"},
    {"frames", RECORD_LIST, AT(frames), .fields = frame_fields, .size = sizeof(struct answer_frame)},
    {"nodes", RECORD_LISTS, AT(nodes), 0,
     "parent, frame, self, total (, self and total of the second column) (, number of nodes that are merged into it)"},
    {0},
};
#undef AT
const struct record_field answer_of_flame = OBJECT(tree_fields, struct answer_tree);

#define AT(member) offsetof(struct answer_callers, member)
static const struct record_field callers_fields[] = {
    {"callers", RECORD_ONE, AT(callers), 0, "who calls it: the nearest first", .fields = tree_fields},
    {"callees", RECORD_ONE, AT(callees), 0, "what it calls", .fields = tree_fields},
    {"total", RECORD_PAIR, AT(total), 0, "of the whole selection", .unit = UNIT_VALUE, .size = AT(n_columns)},
    {0},
};
#undef AT
const struct record_field answer_of_callers = OBJECT(callers_fields, struct answer_callers);

/* --- tables --- */

#define AT(member) offsetof(struct query_row, member)
static const struct record_field row_fields[] = {
    {"name", RECORD_STR, AT(name)},
    {"file", RECORD_STR, AT(file), .flags = RECORD_SPARSE},
    {"line", RECORD_INT, AT(line), .flags = RECORD_SPARSE},
    {"kind", RECORD_WORD, AT(kind), 0, "of the code", RECORD_SPARSE, .words = frame_kind_names, .size = 1},
    {"self", RECORD_PAIR, AT(self), 0, "without what it calls", .unit = UNIT_VALUE, .size = AT(n_columns)},
    {"total", RECORD_PAIR, AT(total), 0, "with what it calls", .unit = UNIT_VALUE, .size = AT(n_columns)},
    {0},
};
#undef AT

#define AT(member) offsetof(struct query_table, member)
static const struct record_field table_fields[] = {
    TYPE(struct query_table),
    {"total", RECORD_PAIR, AT(total), 0, "of the whole selection", .unit = UNIT_VALUE, .size = AT(n_columns)},
    {"coverage", RECORD_PAIR, AT(covered_ns), 0, "time that profiles cover", .unit = UNIT_NS, .size = AT(n_columns)},
    {"count", RECORD_U32, AT(n_all), 0, "rows without the limit"},
    {"rows", RECORD_LIST, AT(rows), .fields = row_fields, .size = sizeof(struct query_row)},
    {0},
};
#undef AT
const struct record_field answer_of_table = OBJECT(table_fields, struct query_table);

static const struct record_field coverage_fields[] = {
    {"coverage", RECORD_PAIR, offsetof(struct answer_head, covered), 0, "time that profiles cover", .unit = UNIT_NS,
     .size = offsetof(struct answer_head, n_covered)},
    {0},
};
const struct record_field answer_of_coverage = OBJECT(coverage_fields, struct answer_head);

#define AT(member) offsetof(struct query_binary, member)
static const struct record_field binary_fields[] = {
    {"buildId", RECORD_STR, AT(build_id)},
    {"mapping", RECORD_STR, AT(mapping), 0, "its file"},
    {"status", RECORD_TEXT, AT(status), 0, "named, partly, missing, hidden or unknown"},
    {"reason", RECORD_TEXT, AT(reason)},
    {"fix", RECORD_TEXT, AT(fix), 0, "what gives the rest names"},
    {"kind", RECORD_WORD, AT(kind), 0, "of the code", RECORD_SPARSE, .words = frame_kind_names, .size = 1},
    {"frames", RECORD_U32, AT(frames)},
    {"named", RECORD_U32, AT(named), 0, "frames with a name"},
    {"self", RECORD_INT, AT(self), .unit = UNIT_VALUE},
    {"selfNamed", RECORD_INT, AT(self_named), .unit = UNIT_VALUE},
    {0},
};
#undef AT

#define AT(member) offsetof(struct query_binaries, member)
static const struct record_field binaries_fields[] = {
    {"self", RECORD_INT, AT(self), 0, "of all", .unit = UNIT_VALUE},
    {"selfNamed", RECORD_INT, AT(self_named), 0, "of frames with a name", .unit = UNIT_VALUE},
    {"count", RECORD_U32, AT(n_all)},
    {"binaries", RECORD_LIST, AT(v), .fields = binary_fields, .size = sizeof(struct query_binary)},
    {0},
};
#undef AT
const struct record_field answer_of_symbols = OBJECT(binaries_fields, struct query_binaries);

/* --- over time --- */

#define AT(member) offsetof(struct answer_one_series, member)
static const struct record_field one_series_fields[] = {
    {"labels", RECORD_MAP, AT(labels)},
    {"values", RECORD_NUMBERS, AT(values), .unit = UNIT_VALUE},
    {"coverage", RECORD_INTS, AT(covered), .unit = UNIT_NS},
    {0},
};
#undef AT

#define AT(member) offsetof(struct answer_series, member)
static const struct record_field series_fields[] = {
    TYPE(struct answer_series),
    {"from", RECORD_NS, AT(from), 0, "of the first point"},
    {"step", RECORD_NS, AT(step), 0, "from one point to the next", .unit = UNIT_NS},
    {"coverage", RECORD_INTS, AT(covered), 0, "of each point", .unit = UNIT_NS},
    {"series", RECORD_LIST, AT(series), .fields = one_series_fields, .size = sizeof(struct answer_one_series)},
    {"interval", RECORD_NS, AT(interval), 0, "the usual time between profiles", RECORD_SPARSE, UNIT_NS},
    {0},
};
#undef AT
const struct record_field answer_of_series = OBJECT(series_fields, struct answer_series);

#define AT(member) offsetof(struct query_deploy, member)
static const struct record_field deploy_fields[] = {
    {"service", RECORD_STR, AT(service), .column = 1},
    {"version", RECORD_STR, AT(version), .column = 2},
    {"first", RECORD_NS, AT(first), 0, "its first profile in the range", .column = 3},
    {"last", RECORD_NS, AT(last), 0, "its last one", .column = 5},
    {"since", RECORD_NS, AT(since), 0, "when its present run began", .column = 4},
    {"profiles", RECORD_COUNT, AT(profiles)},
    {"previous", RECORD_STR, AT(previous), 0, "the version before it", RECORD_SPARSE},
    {"latest", RECORD_BOOL, AT(latest), .column = 6},
    {"deployed", RECORD_BOOL, AT(deployed), 0, "its run began in the range, as a deploy"},
    {0},
};
#undef AT
static const struct record_field deploys_fields[] = {{"deploys", RECORD_LIST, offsetof(struct query_deploys, v),
                                                      .fields = deploy_fields, .size = sizeof(struct query_deploy)},
                                                     {0}};
const struct record_field answer_of_deploys = OBJECT(deploys_fields, struct query_deploys);

#define AT(member) offsetof(struct answer_leak, member)
static const struct record_field leak_fields[] = {
    {"stack", RECORD_STRS, AT(stack), 0, "from the root down"},
    {"slopePerHour", RECORD_NUMBER, AT(slope), .unit = UNIT_VALUE},
    {"fit", RECORD_NUMBER, AT(fit), .unit = UNIT_FIT},
    {"values", RECORD_NUMBERS, AT(values), 0, "in equal windows of the range", .unit = UNIT_VALUE},
    {0},
};
#undef AT

#define AT(member) offsetof(struct answer_leaks, member)
static const struct record_field leaks_fields[] = {
    TYPE(struct answer_leaks),
    {"window", RECORD_NS, AT(window), .unit = UNIT_NS},
    {"leaks", RECORD_LIST, AT(leaks), .fields = leak_fields, .size = sizeof(struct answer_leak)},
    {0},
};
#undef AT
const struct record_field answer_of_leaks = OBJECT(leaks_fields, struct answer_leaks);

#define AT(member) offsetof(struct answer_spike, member)
static const struct record_field spike_fields[] = {
    {"time", RECORD_NS, AT(time)},
    {"rate", RECORD_NUMBER, AT(rate)},
    {"usual", RECORD_NUMBER, AT(usual), 0, "the median of the series"},
    {0},
};
#undef AT

#define AT(member) offsetof(struct answer_trend, member)
static const struct record_field trend_fields[] = {
    {"labels", RECORD_MAP, AT(labels)},
    {"points", RECORD_U32, AT(points), 0, "with data"},
    {"rate", RECORD_NUMBER, AT(rate), 0, "mean per covered second: cores for nanoseconds"},
    {"usual", RECORD_NUMBER, AT(usual), 0, "median rate"},
    {"change_per_hour", RECORD_NUMBER, AT(per_hour), 0, "of the rate, relative to its mean", .unit = UNIT_SHARE},
    {"fit", RECORD_NUMBER, AT(fit), 0, "of a straight line", .unit = UNIT_FIT},
    {"rates", RECORD_NUMBERS, AT(rates), 0, "of each point; null: no profile covers it"},
    {"spikes", RECORD_LIST, AT(spikes), .fields = spike_fields, .size = sizeof(struct answer_spike)},
    {0},
};
#undef AT

#define AT(member) offsetof(struct answer_trends, member)
static const struct record_field trends_fields[] = {
    TYPE(struct answer_trends),
    {"from", RECORD_NS, AT(from), 0, "of the first point"},
    {"step", RECORD_NS, AT(step), 0, "from one point to the next", .unit = UNIT_NS},
    {"trends", RECORD_LIST, AT(trends), .fields = trend_fields, .size = sizeof(struct answer_trend)},
    {0},
};
#undef AT
const struct record_field answer_of_trends = OBJECT(trends_fields, struct answer_trends);

/* --- drift and verdicts --- */

#define AT(member) offsetof(struct drift_row, member)
static const struct record_field drift_label_fields[] = {
    {"name", RECORD_STR, AT(label)},
    {"value", RECORD_STR, AT(value)},
    {"explains", RECORD_NUMBER, AT(explains), 0, "its part of the drift", .unit = UNIT_SHARE},
    {0},
};

static const struct record_field drift_row_fields[] = {
    {"function", RECORD_STR, AT(function), .column = 8},
    {"before", RECORD_NUMBER, AT(before), 0, "its share in the baseline", 0, UNIT_SHARE, 1},
    {"now", RECORD_NUMBER, AT(now), 0, "its share in the range", 0, UNIT_SHARE, 2},
    {"points", RECORD_NUMBER, AT(points), 0, "the drift: now - before", 0, UNIT_POINTS, 3},
    {"cores", RECORD_NUMBER, AT(cores), 0, "change per covered second", 0, UNIT_CORES, 4},
    {"p", RECORD_NUMBER, AT(p), 0, "that this is chance, corrected for the number of functions", 0, UNIT_P, 5},
    {"significant", RECORD_BOOL, AT(significant), 0, "more than chance, and more than the smallest drift asked for",
     .column = 6},
    {"low", RECORD_NUMBER, AT(low), 0, "99 % interval of points", .unit = UNIT_POINTS},
    {"high", RECORD_NUMBER, AT(high), 0, "its other end", .unit = UNIT_POINTS},
    {"label", RECORD_ONE, 0, 0, "samples with this label have most of the drift", .column = 7, .heading = "MOSTLY",
     .fields = drift_label_fields, .when = AT(is_labelled)},
    {0},
};
#undef AT

#define AT(member) offsetof(struct drift_answer, member)
static const struct record_field drift_part[] = {
    TYPE(struct drift_answer),
    {"drift", RECORD_LIST, AT(rows), 0, "the largest effect first", .fields = drift_row_fields,
     .size = sizeof(struct drift_row)},
    {"count", RECORD_U32, AT(n_all), 0, "functions that were tested"},
    {"minimum_detectable_points", RECORD_NUMBER, AT(minimum_detectable_points), 0, "drifts of so many are found",
     .unit = UNIT_POINTS},
    {"instances", RECORD_U32, AT(instances), 0, "with data on either side"},
    {"windows", RECORD_U32, AT(windows), 0, "of time, with data"},
    {"traffic_points", RECORD_NUMBER, AT(traffic_points), 0, "requests that moved to spans of other names",
     RECORD_SPARSE, UNIT_POINTS},
    {"coverage", RECORD_PAIR, AT(covered_ns), 0, "time that profiles cover, of both", .unit = UNIT_NS,
     .size = AT(n_columns)},
    {"cores", RECORD_NUMBERS2, AT(cores), 0, "everything per covered second, of both", .unit = UNIT_CORES},
    {0},
};

static const struct record_field drift_fields[] = {
    {"", RECORD_INLINE, .fields = drift_part},
    {"empty", RECORD_TEXT, AT(empty), 0, "what has no data: baseline, range or both", RECORD_SPARSE},
    {0},
};
#undef AT
const struct record_field answer_drift_rows = LIST(drift_row_fields, struct drift_row);
const struct record_field answer_of_drift = OBJECT(drift_fields, struct drift_answer);

#define AT(member) offsetof(struct verdict_answer, member)
static const struct record_field cause_fields[] = {
    {"function", RECORD_STR, AT(named.function)},
    {"before", RECORD_NUMBER, AT(named.before), .unit = UNIT_SHARE},
    {"now", RECORD_NUMBER, AT(named.now), .unit = UNIT_SHARE},
    {"points", RECORD_NUMBER, AT(named.points), .unit = UNIT_POINTS},
    {"file", RECORD_STR, AT(file), .flags = RECORD_SPARSE},
    {"line", RECORD_INT, AT(line), .flags = RECORD_SPARSE},
    {0},
};

static const char *const normalised_words[] = {"cpu-second", "request", NULL};
static const char *const compared_words[] = {"before", "overlap", NULL};
#define CHARS(member) RECORD_CHARS, AT(member), .size = sizeof(((struct verdict_answer *) 0)->member)

static const struct record_field verdict_fields[] = {
    {"verdict", RECORD_WORD, AT(verdict), .words = verdict_names},
    {"service", RECORD_STR, AT(service)},
    {"version", RECORD_STR, AT(version)},
    {"previous", RECORD_STR, AT(previous), 0, "the version before it"},
    {"deployed", RECORD_NS, AT(deployed_ns), 0, "when its run began"},
    {"rollback", RECORD_BOOL, AT(rollback), 0, "it ran before the previous one"},
    {"sentence", CHARS(sentence), .help = "the verdict in one line"},
    {"normalised", RECORD_WORD, AT(per_request), 0, "what the cost is that of", .words = normalised_words, .size = 1},
    {"headline", CHARS(headline), .help = "what it costs", .flags = RECORD_SPARSE},
    {"interval", CHARS(interval), .help = "of the headline's change", .when = AT(is_card)},
    {"cores_change", RECORD_NUMBER, AT(cores_change), 0, "what the change costs", .unit = UNIT_CORES,
     .when = AT(is_card)},
    {"note", CHARS(note), .help = "why the total says otherwise", .flags = RECORD_SPARSE, .when = AT(is_card)},
    {"cause", RECORD_ONE, 0, 0, "the function that changed most", .fields = cause_fields, .when = AT(is_named)},
    {"cost_change", RECORD_NUMBER, AT(cost_change), 0, "of a request, or of the same work", .unit = UNIT_SHARE},
    {"cost_low", RECORD_NUMBER, AT(cost_low), 0, "its 99 % interval", .unit = UNIT_SHARE, .when = AT(cost_known)},
    {"cost_high", RECORD_NUMBER, AT(cost_high), 0, "its other end", .unit = UNIT_SHARE, .when = AT(cost_known)},
    {"total_change", RECORD_NUMBER, AT(total_change), 0, "of everything per second", .unit = UNIT_SHARE},
    {"cost_p", RECORD_NUMBER, AT(cost_p), 0, "that the change is chance", .unit = UNIT_P, .when = AT(per_request)},
    {"requests", RECORD_PAIR, AT(requests), 0, "of both", .size = AT(drift.n_columns), .when = AT(per_request)},
    {"compared", RECORD_WORD, AT(overlap), 0, "with the previous version at the same time, or before", .size = 1,
     .words = compared_words, .when = AT(is_compared)},
    {"from", RECORD_NS, AT(from), .when = AT(is_compared)},
    {"to", RECORD_NS, AT(to), .when = AT(is_compared)},
    {"baseline_from", RECORD_NS, AT(base_from), .when = AT(is_compared)},
    {"baseline_to", RECORD_NS, AT(base_to), .when = AT(is_compared)},
    {"", RECORD_INLINE, AT(drift), .fields = drift_part},
    {0},
};
#undef AT
const struct record_field answer_of_verdict = OBJECT(verdict_fields, struct verdict_answer);

#define AT(member) offsetof(struct answer_verdicts, member)
static const struct record_field verdicts_fields[] = {
    {"verdicts", RECORD_LIST, AT(verdicts), 0, "the most expensive first", .fields = verdict_fields,
     .size = sizeof(struct verdict_answer)},
    {"count", RECORD_U32, AT(count), 0, "deploys that are worse or better"},
    {"same", RECORD_U32, AT(same)},
    {"undecided", RECORD_U32, AT(undecided), 0, "with not enough data"},
    {0},
};
#undef AT
const struct record_field answer_of_verdicts = OBJECT(verdicts_fields, struct answer_verdicts);

/* --- sentences --- */

#define AT(member) offsetof(struct explain_fact, member)
static const struct record_field fact_fields[] = {
    {"kind", RECORD_WORD, AT(kind), .words = explain_kinds},
    {"severity", RECORD_WORD, AT(warning), .words = severities, .size = 1},
    {"sentence", RECORD_CHARS, AT(sentence), .size = sizeof(((struct explain_fact *) 0)->sentence)},
    {"at", RECORD_NS, AT(at_ns), .flags = RECORD_SPARSE},
    {"at_text", RECORD_CHARS, AT(at_text), 0, "the time as it is in the sentence", RECORD_SPARSE,
     .size = sizeof(((struct explain_fact *) 0)->at_text)},
    {"function", RECORD_STR, AT(function), 0, "what it is about", RECORD_SPARSE},
    {"file", RECORD_STR, AT(file), .flags = RECORD_SPARSE},
    {"line", RECORD_INT, AT(line), .flags = RECORD_SPARSE},
    {"share", RECORD_NUMBER, AT(share), .flags = RECORD_SPARSE, .unit = UNIT_SHARE},
    {0},
};
#undef AT
static const struct record_field explain_fields[] = {
    {"type", RECORD_STR, offsetof(struct explain, type)},
    {"facts", RECORD_LIST, offsetof(struct explain, v), .fields = fact_fields, .size = sizeof(struct explain_fact)},
    {0},
};
const struct record_field answer_of_explain = OBJECT(explain_fields, struct explain);

static const struct record_field finding_frame_fields[] = {
    {"function", RECORD_STR, offsetof(struct finding_frame, function)},
    {"share", RECORD_NUMBER, offsetof(struct finding_frame, share), .unit = UNIT_SHARE},
    {0},
};

#define AT(member) offsetof(struct finding, member)
static const struct record_field finding_fields[] = {
    {"rule", RECORD_TEXT, AT(rule)},
    {"title", RECORD_TEXT, AT(title)},
    {"severity", RECORD_WORD, AT(warning), .words = severities, .size = 1},
    {"share", RECORD_NUMBER, AT(share), 0, "of the selection", .unit = UNIT_SHARE},
    {"sentence", RECORD_CHARS, AT(sentence), .size = sizeof(((struct finding *) 0)->sentence)},
    {"frames", RECORD_LIST, AT(frames), 0, "functions to look at, the largest first", .fields = finding_frame_fields,
     .size = sizeof(struct finding_frame)},
    {0},
};
#undef AT

#define AT(member) offsetof(struct findings, member)
static const struct record_field findings_fields[] = {
    TYPE(struct findings),
    {"total", RECORD_INT, AT(total), 0, "of the selection", .unit = UNIT_VALUE},
    {"findings", RECORD_LIST, AT(v), .fields = finding_fields, .size = sizeof(struct finding)},
    {0},
};
#undef AT
const struct record_field answer_of_findings = OBJECT(findings_fields, struct findings);

/* --- spans --- */

#define AT(member) offsetof(struct answer_span, member)
static const struct record_field span_fields[] = {
    {"traceId", RECORD_BYTES, AT(row.link.trace_id), .size = 16},
    {"spanId", RECORD_BYTES, AT(row.link.span_id), .size = 8},
    {"service", RECORD_STR, AT(row.service)},
    {"value", RECORD_INT, AT(value), 0, "of its samples", .unit = UNIT_VALUE},
    {"sampled", RECORD_INT, AT(sampled), 0, "what its samples stand for, where that is more than it can have used",
     RECORD_SPARSE, UNIT_VALUE},
    {"samples", RECORD_COUNT, AT(samples)},
    {"from", RECORD_NS, AT(from), 0, "of its samples"},
    {"to", RECORD_NS, AT(to), 0, "of its samples"},
    {"parentId", RECORD_BYTES, AT(row.parent), .size = 8, .when = AT(is_child)},
    {"name", RECORD_STR, AT(row.name), .when = AT(known)},
    {"version", RECORD_STR, AT(row.version), .when = AT(known)},
    {"start", RECORD_NS, AT(row.start), .when = AT(known)},
    {"duration", RECORD_NS, AT(row.duration), .unit = UNIT_NS, .when = AT(known)},
    {"status", RECORD_WORD, AT(row.status), .words = span_status_names, .size = 1, .when = AT(known)},
    {"kind", RECORD_WORD, AT(row.kind), .words = span_kind_names, .size = 1, .when = AT(known)},
    {"depth", RECORD_U32, AT(depth), 0, "in the tree of its trace", .when = AT(in_trace)},
    {"link", RECORD_STR, AT(link), 0, "where its trace is shown", RECORD_SPARSE},
    {0},
};
#undef AT

#define AT(member) offsetof(struct answer_spans, member)
static const struct record_field spans_fields[] = {
    TYPE(struct answer_spans),
    {"total", RECORD_INT, AT(total), 0, "of all samples", .unit = UNIT_VALUE},
    {"linked", RECORD_INT, AT(linked), 0, "of samples with a span", .unit = UNIT_VALUE},
    {"count", RECORD_COUNT, AT(count)},
    {"spans", RECORD_LIST, AT(spans), .fields = span_fields, .size = sizeof(struct answer_span)},
    {0},
};
#undef AT
const struct record_field answer_of_spans = OBJECT(spans_fields, struct answer_spans);

#define AT(member) offsetof(struct span_name_row, member)
static const struct record_field span_name_fields[] = {
    {"name", RECORD_STR, AT(name), .column = 9},
    {"service", RECORD_STR, AT(service), .column = 8},
    {"count", RECORD_COUNT, AT(count), .column = 1},
    {"errors", RECORD_COUNT, AT(errors), .column = 2},
    {"p50", RECORD_INT, AT(p50), .unit = UNIT_NS, .column = 3},
    {"p95", RECORD_INT, AT(p95), .unit = UNIT_NS, .column = 4},
    {"p99", RECORD_INT, AT(p99), .unit = UNIT_NS, .column = 5},
    {"max", RECORD_INT, AT(max), .unit = UNIT_NS, .column = 6},
    {"total", RECORD_INT, AT(total), .unit = UNIT_NS, .column = 7},
    {0},
};
#undef AT
static const struct record_field span_names_fields[] = {
    {"count", RECORD_U32, offsetof(struct answer_span_names, count)},
    {"spans", RECORD_LIST, offsetof(struct answer_span_names, spans), .fields = span_name_fields,
     .size = sizeof(struct span_name_row)},
    {0},
};
const struct record_field answer_of_span_names = OBJECT(span_names_fields, struct answer_span_names);

#define AT(member) offsetof(struct answer_span_heatmap, member)
static const struct record_field span_heatmap_fields[] = {
    {"from", RECORD_NS, AT(from), 0, "of the first step"},
    {"step", RECORD_NS, AT(step), .unit = UNIT_NS},
    {"count", RECORD_COUNT, AT(count), 0, "of spans"},
    {"errors", RECORD_COUNT, AT(errors)},
    {"bounds", RECORD_INTS, AT(bounds), 0, "of the rows, one more than there are", .unit = UNIT_NS},
    {"counts", RECORD_LISTS, AT(counts), 0, "of spans: for each step those of each row"},
    {0},
};
#undef AT
const struct record_field answer_of_span_heatmap = OBJECT(span_heatmap_fields, struct answer_span_heatmap);

/* --- by time --- */

#define AT(member) offsetof(struct answer_heatmap, member)
static const struct record_field heatmap_fields[] = {
    {"type", RECORD_STR, AT(type)},
    {"unit", RECORD_STR, AT(unit), 0, "of the values: nanoseconds, bytes, count"},
    {"from", RECORD_NS, AT(from), 0, "of the first column"},
    {"step", RECORD_NS, AT(step), 0, "of a column", .unit = UNIT_NS},
    {"columns", RECORD_U32, AT(columns)},
    {"rows", RECORD_U32, AT(rows)},
    {"scale", RECORD_INT, AT(scale), 0, "what 1 of the values stands for"},
    {"max", RECORD_INT, AT(max), 0, "the largest cell", .unit = UNIT_VALUE},
    {"timed", RECORD_INT, AT(timed), 0, "of samples with a time of their own", .unit = UNIT_VALUE},
    {"untimed", RECORD_INT, AT(untimed), 0, "of those without", .unit = UNIT_VALUE},
    {"samples", RECORD_COUNT, AT(samples)},
    {"values", RECORD_INTS, AT(values), 0, "column after column"},
    {0},
};
#undef AT
const struct record_field answer_of_heatmap = OBJECT(heatmap_fields, struct answer_heatmap);

#define AT(member) offsetof(struct answer_thread, member)
static const struct record_field thread_fields[] = {
    {"name", RECORD_STR, AT(name)},
    {"service", RECORD_STR, AT(service)},
    {"id", RECORD_INT, AT(id)},
    {"pid", RECORD_INT, AT(pid)},
    {"running", RECORD_INT, AT(running), .unit = UNIT_NS},
    {"waiting", RECORD_INT, AT(waiting), .unit = UNIT_NS},
    {"samples", RECORD_COUNT, AT(samples)},
    {"cells", RECORD_INTS, AT(cells), 0, "column, number of columns, node, 1 for waiting; and so on"},
    {0},
};
#undef AT

#define AT(member) offsetof(struct answer_chart_span, member)
static const struct record_field chart_span_fields[] = {
    {"traceId", RECORD_BYTES, AT(link.trace_id), .size = 16},
    {"spanId", RECORD_BYTES, AT(link.span_id), .size = 8},
    {"name", RECORD_STR, AT(name)},
    {"thread", RECORD_U32, AT(thread), 0, "in threads"},
    {"start", RECORD_NS, AT(start)},
    {"end", RECORD_NS, AT(end)},
    {0},
};
#undef AT

#define AT(member) offsetof(struct answer_chart, member)
static const struct record_field chart_fields[] = {
    {"from", RECORD_NS, AT(from)},
    {"step", RECORD_NS, AT(step), 0, "of a column", .unit = UNIT_NS},
    {"columns", RECORD_U32, AT(columns)},
    {"read", RECORD_U32, AT(read), 0, "columns that were read; the others are not known"},
    {"sliced", RECORD_BOOL, AT(sliced), 0, "only a short time of each column was read"},
    {"count", RECORD_U32, AT(count), 0, "of threads without the limit"},
    {"untimed", RECORD_COUNT, AT(untimed), 0, "samples without a time, which are not in it"},
    {"names", RECORD_STRS, AT(names), 0, "of frames"},
    {"kinds", RECORD_INTS, AT(kinds), 0, "of frames"},
    {"parents", RECORD_INTS, AT(parents), 0, "of nodes"},
    {"frames", RECORD_INTS, AT(frames), 0, "of nodes"},
    {"threads", RECORD_LIST, AT(threads), .fields = thread_fields, .size = sizeof(struct answer_thread)},
    {"spans", RECORD_LIST, AT(spans), .fields = chart_span_fields, .size = sizeof(struct answer_chart_span)},
    {0},
};
#undef AT
const struct record_field answer_of_chart = OBJECT(chart_fields, struct answer_chart);

/* --- lists --- */

#define AT(member) offsetof(struct query_profile, member)
static const struct record_field profile_fields[] = {
    {"handle", RECORD_ID, AT(handle), 0, "of the profile, for the parameter profile", .column = 4, .heading = "PROFILE",
     .size = sizeof(struct id128)},
    {"time", RECORD_NS, AT(time_ns), 3, "its start", .column = 1},
    {"duration", RECORD_NS, AT(duration_ns), .unit = UNIT_NS},
    {"value", RECORD_INT, AT(value), .unit = UNIT_VALUE, .column = 2},
    {"samples", RECORD_U32, AT(n_samples), .column = 3},
    {"labels", RECORD_MAP, AT(labels), .column = 5},
    {0},
};
#undef AT

#define AT(member) offsetof(struct query_profiles, member)
static const struct record_field profiles_fields[] = {
    {"type", RECORD_STR, AT(type.name), 0, "of the values"},
    {"unit", RECORD_STR, AT(type.unit), 0, "of the values"},
    {"count", RECORD_U32, AT(n_all), 0, "without the limit"},
    {"profiles", RECORD_LIST, AT(v), .fields = profile_fields, .size = sizeof(struct query_profile)},
    {0},
};
#undef AT
const struct record_field answer_of_profiles = OBJECT(profiles_fields, struct query_profiles);

#define AT(member) offsetof(struct query_service, member)
static const struct record_field service_fields[] = {
    {"name", RECORD_STR, AT(name), .column = 1, .heading = "SERVICE"},
    {"types", RECORD_STRS, AT(types), .column = 2},
    {"versions", RECORD_STRS, AT(versions), .column = 3},
    {0},
};
#undef AT
const struct record_field answer_of_services = LIST(service_fields, struct query_service);

static const struct record_field label_fields[] = {
    {"name", RECORD_STR, offsetof(struct answer_label, name), .column = 1},
    {"slow", RECORD_BOOL, offsetof(struct answer_label, slow), 0, "read from detail", .column = 2},
    {0},
};
const struct record_field answer_of_labels = {.kind = RECORD_STRS, .heading = "NAME"};
const struct record_field answer_of_label_details = LIST(label_fields, struct answer_label);

static const char *const type_rules[] = {"delta", "gauge", "cumulative", NULL};

#define AT(member) offsetof(struct answer_type, member)
static const struct record_field type_fields[] = {
    {"name", RECORD_STR, AT(name), .column = 1, .heading = "TYPE"},
    {"unit", RECORD_STR, AT(unit), .column = 2},
    {"rule", RECORD_WORD, AT(rule), 0, "how values add up over time", .column = 3, .words = type_rules},
    {"title", RECORD_STR, AT(title), .column = 4, .heading = "MEANING"},
    {"stored", RECORD_BOOL, AT(stored), 0, "there are profiles of it"},
    {0},
};
#undef AT
const struct record_field answer_of_types = LIST(type_fields, struct answer_type);
