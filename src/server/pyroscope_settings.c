/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pyroscope's SettingsService, see pyroscope.h: names and values that Profiles Drilldown keeps for a tenant, in one file of
 * the tenant (tenant_files.h):
 *
 *     {"settings":[{"name":"pluginSettings","value":"{}","modifiedAt":"1763269200000"}]}
 *
 * Get answers with the file's content, read anew each time; Set and Delete write it as a whole, one at a time.
 */
#include <errno.h>
#include <pthread.h>

#include "base/clock.h"
#include "base/json.h"
#include "server/pyroscope.h"
#include "server/tenant_files.h"

enum { SETTINGS_MAX = 200, SETTING_SIZE = 64 << 10 };

#define SETTINGS_FILE STR("settings.json")

struct py_setting {
    struct str name, value;
    int64_t modified_ms;
};

struct py_settings {
    struct py_setting v[SETTINGS_MAX];
    uint32_t n;
};

static pthread_mutex_t writers = PTHREAD_MUTEX_INITIALIZER;

static struct tenant_files *files_of(struct call *c)
{
    return front_options(c->front)->files;
}

static void read_setting(struct json *j, struct py_setting *ret)
{
    struct str key;

    *ret = (struct py_setting){0};
    json_begin_object(j);
    while (json_next_key(j, &key)) {
        if (str_is(key, "name"))
            ret->name = json_str(j);
        else if (str_is(key, "value"))
            ret->value = json_str(j);
        else if (str_is(key, "modifiedAt"))
            str_to_i64(json_str(j), 10, &ret->modified_ms);
        else
            json_skip(j);
    }
}

/* The settings of the tenant, in the request's arena. */
static int load(struct call *c, struct py_settings **ret, struct err *e)
{
    struct arena *a = &c->q->arena;
    struct py_settings *s = arena_zalloc(a, sizeof *s);
    struct buf text = BUF_INIT;
    struct json j;
    struct str key, kept;
    int r;

    if (!s)
        return -ENOMEM;
    *ret = s;
    r = tenant_files_get(files_of(c), c->who.tenant, SETTINGS_FILE, &text, e);
    kept = r == 0 ? arena_str(a, buf_str(&text)) : (struct str){0};
    buf_done(&text);
    if (r < 0)
        return r == -ENOENT ? 0 : r;
    json_init(&j, kept, a);
    json_begin_object(&j);
    while (json_next_key(&j, &key)) {
        if (!str_is(key, "settings")) {
            json_skip(&j);
            continue;
        }
        json_begin_array(&j);
        while (s->n < SETTINGS_MAX && json_next_item(&j))
            read_setting(&j, &s->v[s->n++]);
    }
    return json_end(&j) < 0 ? json_error(&j, e) : 0;
}

static void put_setting(struct pbjson *w, const struct py_setting *s)
{
    pbjson_str(w, 1, "name", s->name);
    pbjson_str(w, 2, "value", s->value);
    pbjson_i64(w, 3, "modifiedAt", s->modified_ms);
}

static void put_settings(struct pbjson *w, const struct py_settings *s)
{
    pbjson_list(w, "settings");
    for (uint32_t i = 0; i < s->n; i++) {
        pbjson_begin(w, 1, NULL);
        put_setting(w, &s->v[i]);
        pbjson_end(w);
    }
    pbjson_list_end(w);
}

static int save(struct call *c, const struct py_settings *s, struct err *e)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    struct pbjson w;

    pbjson_open(&w, &text, true);
    put_settings(&w, s);
    pbjson_close(&w);
    return buf_error(&text) ? buf_error(&text)
                            : tenant_files_put(files_of(c), c->who.tenant, SETTINGS_FILE, buf_str(&text), e);
}

static uint32_t find(const struct py_settings *s, struct str name)
{
    uint32_t i = 0;

    while (i < s->n && !str_eq(s->v[i].name, name))
        i++;
    return i;
}

int py_settings_get(struct call *c, struct py_request *r, struct pbjson *w, struct err *e)
{
    struct py_settings *s = NULL;
    int result = load(c, &s, e);

    (void) r;
    if (result == 0)
        put_settings(w, s);
    return result;
}

/* With the lock of the writers held. */
static int set_locked(struct call *c, const struct py_setting *one, struct err *e)
{
    struct py_settings *s = NULL;
    int r = load(c, &s, e);
    uint32_t i = r == 0 ? find(s, one->name) : 0;

    if (r < 0)
        return r;
    if (i == SETTINGS_MAX)
        return err_set(e, -E2BIG, "there are %d settings already", SETTINGS_MAX);
    s->n = MAX(s->n, i + 1);
    s->v[i] = *one;
    return save(c, s, e);
}

int py_settings_set(struct call *c, struct py_request *r, struct pbjson *w, struct err *e)
{
    struct py_setting one = {r->name, r->value, clock_wall() / NS_PER_MS};
    int result;

    if (!r->name.n || r->name.n > SETTING_SIZE || r->value.n > SETTING_SIZE)
        return err_set(e, -EINVAL, "a setting needs a name, and name and value have at most %d bytes", SETTING_SIZE);
    pthread_mutex_lock(&writers);
    result = set_locked(c, &one, e);
    pthread_mutex_unlock(&writers);
    if (result < 0)
        return result;
    pbjson_begin(w, 1, "setting");
    put_setting(w, &one);
    pbjson_end(w);
    return 0;
}

static int delete_locked(struct call *c, struct str name, struct err *e)
{
    struct py_settings *s = NULL;
    int r = load(c, &s, e);
    uint32_t i = r == 0 ? find(s, name) : 0;

    if (r < 0)
        return r;
    if (i == s->n)
        return err_set(e, -ENOENT, "there is no setting '%.*s'", STR_FMT(name));
    s->v[i] = s->v[--s->n];
    return save(c, s, e);
}

int py_settings_delete(struct call *c, struct py_request *r, struct pbjson *w, struct err *e)
{
    int result;

    (void) w;
    pthread_mutex_lock(&writers);
    result = delete_locked(c, r->name, e);
    pthread_mutex_unlock(&writers);
    return result;
}
