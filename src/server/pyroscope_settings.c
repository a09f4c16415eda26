/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pyroscope's SettingsService, see pyroscope.h: names and values that Profiles Drilldown keeps for a tenant, in one file of
 * the tenant (tenant_files.h):
 *
 *     {"settings":[{"name":"pluginSettings","value":"{}","modifiedAt":"1763269200000"}]}
 *
 * Get answers with the file's content, read anew each time; Set and Delete write it as a whole. One request at a time.
 */
#include <errno.h>
#include <pthread.h>

#include "base/clock.h"
#include "base/record.h"
#include "server/pyroscope.h"
#include "server/tenant_files.h"

/* All settings, as written: they must fit into a request's arena when they are read. */
enum { SETTINGS_MAX = 200, SETTING_SIZE = 64 << 10, SETTINGS_SIZE = 16 << 20 };

#define SETTINGS_FILE STR("settings.json")

struct py_setting {
    struct str name, value;
    int64_t modified_ms;
};

struct py_settings {
    struct py_setting *v; /* with room for one more */
    uint32_t n;
};

static const struct record_field setting_fields[] = {
    {"name", RECORD_STR, offsetof(struct py_setting, name)},
    {"value", RECORD_STR, offsetof(struct py_setting, value)},
    {"modifiedAt", RECORD_NS, offsetof(struct py_setting, modified_ms)},
    {0},
};

static const struct record_field file_fields[] = {
    {"settings", RECORD_LIST, 0, SETTINGS_MAX, .fields = setting_fields, .size = sizeof(struct py_setting)}, {0}};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct tenant_files *files_of(struct call *c)
{
    return front_options(c->front)->files;
}

/* The settings of the tenant, in the request's arena. With the lock held. */
static int load(struct call *c, struct py_settings *ret, struct err *e)
{
    struct arena *a = &c->q->arena;
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    struct record_list list = {0};
    struct str kept;
    int r = tenant_files_get(files_of(c), c->who.tenant, SETTINGS_FILE, &text, e);

    if (r == 0) {
        kept = arena_str(a, buf_str(&text));
        r = kept.p ? record_read(kept, file_fields, RECORD_FILE, a, &list, e) : -ENOMEM;
    }
    if (r < 0 && r != -ENOENT) {
        list = (struct record_list){0};
        r = tenant_files_recover(files_of(c), c->who.tenant, SETTINGS_FILE, r, e);
        if (r < 0)
            return r;
    }
    *ret = (struct py_settings){arena_zalloc_array(a, list.n + 1, sizeof *ret->v), list.n};
    if (!ret->v)
        return -ENOMEM;
    if (list.n)
        memcpy(ret->v, list.v, list.n * sizeof *ret->v);
    return 0;
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

    record_put(&text, file_fields, &(struct record_list){s->v, s->n});
    if (text.n > SETTINGS_SIZE)
        return err_set(e, -EDQUOT, "the settings of a tenant have at most %d MiB; delete some", SETTINGS_SIZE >> 20);
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
    struct py_settings s;
    int result;

    (void) r;
    pthread_mutex_lock(&lock);
    result = load(c, &s, e);
    pthread_mutex_unlock(&lock);
    if (result == 0)
        put_settings(w, &s);
    return result;
}

/* With the lock held. */
static int set_locked(struct call *c, const struct py_setting *one, struct err *e)
{
    struct py_settings s;
    int r = load(c, &s, e);
    uint32_t i = r == 0 ? find(&s, one->name) : 0;

    if (r < 0)
        return r;
    if (i == SETTINGS_MAX)
        return err_set(e, -E2BIG, "there are %d settings already", SETTINGS_MAX);
    s.n = MAX(s.n, i + 1);
    s.v[i] = *one;
    return save(c, &s, e);
}

int py_settings_set(struct call *c, struct py_request *r, struct pbjson *w, struct err *e)
{
    struct py_setting one = {r->name, r->value, clock_wall() / NS_PER_MS};
    int result;

    if (!r->name.n || r->name.n > SETTING_SIZE || r->value.n > SETTING_SIZE)
        return err_set(e, -EINVAL, "a setting needs a name, and name and value have at most %d bytes", SETTING_SIZE);
    pthread_mutex_lock(&lock);
    result = set_locked(c, &one, e);
    pthread_mutex_unlock(&lock);
    if (result < 0)
        return result;
    pbjson_begin(w, 1, "setting");
    put_setting(w, &one);
    pbjson_end(w);
    return 0;
}

static int delete_locked(struct call *c, struct str name, struct err *e)
{
    struct py_settings s;
    int r = load(c, &s, e);
    uint32_t i = r == 0 ? find(&s, name) : 0;

    if (r < 0)
        return r;
    if (i == s.n)
        return err_set(e, -ENOENT, "there is no setting '%.*s'", STR_FMT(name));
    s.v[i] = s.v[--s.n];
    return save(c, &s, e);
}

int py_settings_delete(struct call *c, struct py_request *r, struct pbjson *w, struct err *e)
{
    int result;

    (void) w;
    pthread_mutex_lock(&lock);
    result = delete_locked(c, r->name, e);
    pthread_mutex_unlock(&lock);
    return result;
}
