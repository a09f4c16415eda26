/* SPDX-License-Identifier: Apache-2.0 */
/* The file of states: printing and reading it. See alert_state.h. */
#include "alert/alert_state.h"

#include <errno.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"

enum { ID_DIGITS = 16 };

/* --- printing --- */

static void put_text(struct buf *out, const char *key, const char *value)
{
    if (!value[0])
        return;
    buf_printf(out, ",\"%s\":", key);
    json_put_str(out, str_from(value));
}

static void put_time(struct buf *out, const char *key, int64_t ns)
{
    buf_printf(out, ",\"%s\":\"%lld\"", key, (long long) ns);
}

static void put_number(struct buf *out, const char *key, double v)
{
    buf_printf(out, ",\"%s\":", key);
    json_put_double(out, v);
}

static void put_notified(struct buf *out, uint32_t bits, const struct alert_target *targets)
{
    bool first = true;

    buf_puts(out, ",\"notified\":[");
    for (uint32_t i = 0; i < ALERT_TARGETS_MAX; i++)
        if (bits & 1u << i && targets[i].id) {
            json_sep(out, &first);
            buf_printf(out, "\"%016llx\"", (unsigned long long) targets[i].id);
        }
    buf_putc(out, ']');
}

static void put_alert(struct buf *out, const struct alert *a, const struct alert_target *targets)
{
    buf_puts(out, "{\"rule\":");
    json_put_str(out, str_from(a->rule));
    put_text(out, "tenant", a->tenant);
    put_text(out, "service", a->service);
    put_text(out, "function", a->function);
    put_text(out, "version", a->version);
    buf_printf(out, ",\"id\":\"%016llx\",\"type\":\"%s\",\"stage\":\"%s\",\"unit\":\"%s\"", (unsigned long long) a->id,
               alert_type_names[a->type], alert_stage_name(a->stage), alert_unit_name(a->unit));
    put_time(out, "active", a->active);
    put_time(out, "since", a->since);
    put_time(out, "seen", a->seen);
    put_time(out, "notified_at", a->notified_at);
    put_number(out, "value", a->value);
    put_number(out, "limit", a->limit);
    put_notified(out, a->notified, targets);
    put_text(out, "summary", a->summary);
    put_text(out, "link", a->link);
    buf_putc(out, '}');
}

void alert_states_print(const struct alert_states *s, const struct alert_target *targets, struct buf *out)
{
    buf_puts(out, "{\"version\":1,\"alerts\":[");
    for (size_t i = 0; i < s->n; i++) {
        buf_puts(out, i ? ",\n" : "\n");
        put_alert(out, s->v[i], targets);
    }
    buf_puts(out, "\n]}\n");
}

/* --- reading --- */

static bool hex_id(struct str s, uint64_t *ret)
{
    char text[ID_DIGITS + 3];

    if (s.n != ID_DIGITS)
        return false;
    memcpy(text, "0x", 2);
    memcpy(text + 2, s.p, s.n);
    text[ID_DIGITS + 2] = 0;
    return str_to_u64(str_from(text), 0, ret) == 0;
}

static uint32_t read_notified(struct json *j, const struct alert_target *targets)
{
    uint32_t bits = 0;

    json_begin_array(j);
    while (json_next_item(j)) {
        struct str text = json_str(j);
        uint64_t id = 0;

        if (!hex_id(text, &id))
            continue;
        for (uint32_t i = 0; i < ALERT_TARGETS_MAX; i++)
            if (targets[i].id == id)
                bits |= 1u << i;
    }
    return bits;
}

static int word_index(struct str word, const char *(*name)(int i), int n)
{
    for (int i = 0; i < n; i++)
        if (str_is(word, name(i)))
            return i;
    return 0;
}

static const char *type_word(int i)
{
    return alert_type_names[i];
}

static const char *stage_word(int i)
{
    return alert_stage_name((enum alert_stage) i);
}

static const char *unit_word(int i)
{
    return alert_unit_name((enum alert_unit) i);
}

/* Times before 1970 would overflow where they are subtracted. */
static int64_t read_time(struct json *j)
{
    int64_t t = json_i64(j);

    return MAX(t, 0);
}

static void read_number(struct json *j, struct str key, struct alert *a)
{
    if (str_is(key, "active"))
        a->active = read_time(j);
    else if (str_is(key, "since"))
        a->since = read_time(j);
    else if (str_is(key, "seen"))
        a->seen = read_time(j);
    else if (str_is(key, "notified_at"))
        a->notified_at = read_time(j);
    else if (str_is(key, "value"))
        a->value = json_double(j);
    else if (str_is(key, "limit"))
        a->limit = json_double(j);
    else
        json_skip(j);
}

static void read_text(struct json *j, char **at)
{
    struct str s = json_str(j);

    mem_free(*at);
    *at = mem_alloc((size_t) s.n + 1);
    if (*at) {
        memcpy(*at, s.p ? s.p : "", s.n);
        (*at)[s.n] = 0;
    }
}

static void read_alert(struct json *j, struct alert *a, const struct alert_target *targets)
{
    const struct {
        const char *key;
        char **at;
    } texts[] = {{"rule", &a->rule},         {"tenant", &a->tenant},   {"service", &a->service},
                 {"function", &a->function}, {"version", &a->version}, {"summary", &a->summary},
                 {"link", &a->link}};
    struct str key;

    json_begin_object(j);
    while (json_next_key(j, &key)) {
        char **at = NULL;

        for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
            if (str_is(key, texts[i].key))
                at = texts[i].at;
        if (at)
            read_text(j, at);
        else if (str_is(key, "id"))
            hex_id(json_str(j), &a->id);
        else if (str_is(key, "type"))
            a->type = (enum alert_type) word_index(json_str(j), type_word, ALERT_LOST + 1);
        else if (str_is(key, "stage"))
            a->stage = (enum alert_stage) word_index(json_str(j), stage_word, ALERT_RESOLVED + 1);
        else if (str_is(key, "unit"))
            a->unit = (enum alert_unit) word_index(json_str(j), unit_word, ALERT_SECONDS + 1);
        else if (str_is(key, "notified"))
            a->notified = read_notified(j, targets);
        else
            read_number(j, key, a);
    }
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        if (!*texts[i].at)
            *texts[i].at = mem_strdup("");
}

static int take_alert(struct alert_states *s, struct json *j, const struct alert_target *targets)
{
    _cleanup_(alert_freep) struct alert *a = mem_zalloc(sizeof *a);
    unsigned long failures = mem_failures();
    int r;

    if (!a)
        return -ENOMEM;
    read_alert(j, a, targets);
    if (mem_failures() != failures || !a->rule || !a->tenant || !a->service || !a->function || !a->version ||
        !a->summary || !a->link)
        return -ENOMEM;
    r = array_push(s->v, s->n, s->cap, ALERTS_MAX, a);
    if (r < 0)
        return r;
    a->change = ++s->changes;
    TAKE(a);
    return 0;
}

static int read_alerts(struct alert_states *s, struct json *j, const struct alert_target *targets)
{
    int r = 0;

    json_begin_array(j);
    while (r == 0 && json_next_item(j))
        r = take_alert(s, j, targets);
    return r;
}

int alert_states_read(struct alert_states *s, struct str text, const struct alert_target *targets, struct err *e)
{
    struct arena arena;
    struct json j;
    struct str key;
    int r = 0;

    arena_init(&arena, 0);
    json_init(&j, text, &arena);
    json_begin_object(&j);
    while (r == 0 && json_next_key(&j, &key)) {
        if (str_is(key, "version")) {
            if (json_i64(&j) != 1)
                r = err_set(e, -EPROTONOSUPPORT, "it was written by a later version of wick");
        } else if (str_is(key, "alerts")) {
            r = read_alerts(s, &j, targets);
        } else {
            json_skip(&j);
        }
    }
    if (r == 0 && json_end(&j) < 0)
        r = err_set(e, j.err, "not valid JSON: %s", j.what ? j.what : "unexpected end");
    arena_done(&arena);
    return r;
}
