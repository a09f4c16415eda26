/* SPDX-License-Identifier: Apache-2.0 */
/* The file of states: printing and reading it. See alert_state.h. */
#include <errno.h>
#include <stdio.h>

#include "alert/alert_state.h"
#include "base/mem.h"
#include "base/record.h"

enum { ID_SIZE = 17 };

/* An alert as it is kept: receivers by their ids. */
struct kept_alert {
    struct alert a;
    struct record_list notified; /* of struct str */
};

struct kept_alerts {
    int64_t version;
    struct record_list alerts;
};

#define ALERT_FIELD(member) offsetof(struct kept_alert, a.member)
static const struct record_field alert_fields[] = {
    {"rule", RECORD_TEXT, ALERT_FIELD(rule)},
    {"tenant", RECORD_TEXT, ALERT_FIELD(tenant), .flags = RECORD_SPARSE},
    {"service", RECORD_TEXT, ALERT_FIELD(service), .flags = RECORD_SPARSE},
    {"function", RECORD_TEXT, ALERT_FIELD(function), .flags = RECORD_SPARSE},
    {"version", RECORD_TEXT, ALERT_FIELD(version), .flags = RECORD_SPARSE},
    {"id", RECORD_ID, ALERT_FIELD(id)},
    {"type", RECORD_WORD, ALERT_FIELD(type), .words = alert_type_names},
    {"stage", RECORD_WORD, ALERT_FIELD(stage), .words = alert_stage_names},
    {"unit", RECORD_WORD, ALERT_FIELD(unit), .words = alert_unit_names},
    {"active", RECORD_NS, ALERT_FIELD(active)},
    {"since", RECORD_NS, ALERT_FIELD(since)},
    {"seen", RECORD_NS, ALERT_FIELD(seen)},
    {"notified_at", RECORD_NS, ALERT_FIELD(notified_at)},
    {"value", RECORD_NUMBER, ALERT_FIELD(value)},
    {"limit", RECORD_NUMBER, ALERT_FIELD(limit)},
    {"notified", RECORD_STRS, offsetof(struct kept_alert, notified), ALERT_TARGETS_MAX},
    {"summary", RECORD_TEXT, ALERT_FIELD(summary), .flags = RECORD_SPARSE},
    {"link", RECORD_TEXT, ALERT_FIELD(link), .flags = RECORD_SPARSE},
    {0},
};

static const struct record_field version_fields[] = {
    {"version", RECORD_INT, offsetof(struct kept_alerts, version)},
    {0},
};

static const struct record_field file_fields[] = {
    {"version", RECORD_INT, offsetof(struct kept_alerts, version)},
    {"alerts", RECORD_LIST, offsetof(struct kept_alerts, alerts), ALERTS_MAX, .fields = alert_fields,
     .size = sizeof(struct kept_alert)},
    {0},
};

/* The name of a receiver in the file. */
static void name_target(const struct alert_target *t, char *name)
{
    snprintf(name, ID_SIZE, "%016llx", (unsigned long long) t->id);
}

static void put_alert(struct buf *out, const struct alert *a, const struct alert_target *targets)
{
    char names[ALERT_TARGETS_MAX][ID_SIZE];
    struct str notified[ALERT_TARGETS_MAX];
    struct kept_alert k = {*a, {notified, 0}};

    for (uint32_t i = 0; i < ALERT_TARGETS_MAX; i++)
        if (a->notified & 1u << i && targets[i].id) {
            name_target(&targets[i], names[i]);
            notified[k.notified.n++] = str_from(names[i]);
        }
    record_put(out, alert_fields, &k);
}

void alert_states_print(const struct alert_states *s, const struct alert_target *targets, struct buf *out)
{
    buf_puts(out, "{\"version\":1,\"alerts\":[");
    for (size_t i = 0; i < s->n; i++) { /* one by one: a copy of all of them would be large */
        buf_puts(out, i ? ",\n" : "\n");
        put_alert(out, s->v[i], targets);
    }
    buf_puts(out, "\n]}\n");
}

static uint32_t notified_bits(const struct record_list *names, const struct alert_target *targets)
{
    const struct str *v = names->v;
    char name[ID_SIZE];
    uint32_t bits = 0;

    for (uint32_t i = 0; i < ALERT_TARGETS_MAX; i++) {
        name_target(&targets[i], name);
        for (uint32_t k = 0; k < names->n && targets[i].id; k++)
            if (str_is(v[k], name))
                bits |= 1u << i;
    }
    return bits;
}

/* Replaces the texts of the arena by copies. */
static int own_texts(struct alert *a)
{
    char **const texts[] = {&a->rule, &a->tenant, &a->service, &a->function, &a->version, &a->summary, &a->link};
    int r = 0;

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        *texts[i] = r == 0 ? mem_strdup(*texts[i]) : NULL;
        r = *texts[i] ? r : -ENOMEM;
    }
    return r;
}

static int take_alert(struct alert_states *s, const struct kept_alert *k, const struct alert_target *targets)
{
    _cleanup_(alert_freep) struct alert *a = mem_dup(&k->a, sizeof *a);
    int r = a ? own_texts(a) : -ENOMEM;

    if (r == 0)
        r = array_push(s->v, s->n, s->cap, ALERTS_MAX, a);
    if (r < 0)
        return r;
    a->notified = notified_bits(&k->notified, targets);
    a->change = ++s->changes;
    TAKE(a);
    return 0;
}

int alert_states_read(struct alert_states *s, struct str text, const struct alert_target *targets, struct err *e)
{
    struct kept_alerts f = {0};
    struct arena arena;
    int r;

    arena_init(&arena, 0);
    r = record_read(text, version_fields, RECORD_FILE, &arena, &f, e);
    if (r == 0 && f.version > 1)
        r = err_set(e, -EPROTONOSUPPORT, "it was written by a later version of wick");
    if (r == 0)
        r = record_read(text, file_fields, RECORD_FILE, &arena, &f, e);
    for (uint32_t i = 0; r == 0 && i < f.alerts.n; i++)
        r = take_alert(s, (const struct kept_alert *) f.alerts.v + i, targets);
    arena_done(&arena);
    return r;
}
