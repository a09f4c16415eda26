/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/v1/notes and /api/v1/views: what people write on charts ("cache warmed at 14:02"), and views of the web UI that they
 * save. Both are kept per tenant, each in one file (tenant_files.h), an array of objects:
 *
 *     {"marks":[{"id":"5f2c…","time":"1763269200000000000","service":"checkout","text":"cache warmed","created":"…"}]}
 *
 * The file is read for each request and replaced as a whole; writers wait for each other.
 */
#include <errno.h>
#include <pthread.h>
#include <sys/random.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/json.h"
#include "server/api.h"
#include "server/front.h"
#include "server/tenant_files.h"

enum { MARKS_MAX = 500, MARK_TEXT_MAX = 2000, MARK_URL_MAX = 8000, MARK_ID_BYTES = 8 };

struct mark {
    struct str id, service, text, url;
    int64_t time_ns, created_ns;
};

struct marks {
    struct mark v[MARKS_MAX];
    uint32_t n;
};

/* Where marks of a kind are kept, and what they are called in answers. */
struct mark_kind {
    const char *file, *list, *what;
    bool has_url;
};
static struct mark_kind notes = {"notes.json", "notes", "note", false}, views = {"views.json", "views", "view", true};

static pthread_mutex_t writers = PTHREAD_MUTEX_INITIALIZER;

/* --- the file --- */

static void read_mark(struct json *j, struct mark *m)
{
    struct str key;

    json_begin_object(j);
    while (json_next_key(j, &key)) {
        if (str_is(key, "id"))
            m->id = json_str(j);
        else if (str_is(key, "service"))
            m->service = json_str(j);
        else if (str_is(key, "text"))
            m->text = json_str(j);
        else if (str_is(key, "url"))
            m->url = json_str(j);
        else if (str_is(key, "time"))
            str_to_i64(json_str(j), 10, &m->time_ns);
        else if (str_is(key, "created"))
            str_to_i64(json_str(j), 10, &m->created_ns);
        else
            json_skip(j);
    }
}

static int load(struct call *c, const struct mark_kind *k, struct marks **ret, struct err *e)
{
    struct arena *a = &c->q->arena;
    struct marks *m = *ret = arena_zalloc(a, sizeof *m);
    struct tenant_files *files = front_options(c->front)->files;
    struct buf text = BUF_INIT;
    struct str key, kept;
    struct json j;
    int r = m ? 0 : -ENOMEM;

    if (r == 0 && !files)
        return err_set(e, -ENOENT, "this server keeps no %ss", k->what);
    if (r == 0)
        r = tenant_files_get(files, c->who.tenant, str_from(k->file), &text, e);
    kept = r == 0 ? arena_str(a, buf_str(&text)) : (struct str){0};
    buf_done(&text);
    if (r < 0)
        return r == -ENOENT ? 0 : r;
    json_init(&j, kept, a);
    json_begin_object(&j);
    while (json_next_key(&j, &key)) {
        if (!str_is(key, k->list)) {
            json_skip(&j);
            continue;
        }
        json_begin_array(&j);
        while (m->n < MARKS_MAX && json_next_item(&j))
            read_mark(&j, &m->v[m->n++]);
    }
    return json_end(&j) < 0 ? json_error(&j, e) : 0;
}

static void put_member(struct buf *out, const char *key, struct str v)
{
    buf_printf(out, ",\"%s\":", key);
    json_put_str(out, v);
}

static void put_marks(struct buf *out, const struct mark_kind *k, const struct marks *m)
{
    buf_printf(out, "{\"%s\":[", k->list);
    for (uint32_t i = 0; i < m->n; i++) {
        const struct mark *x = &m->v[i];

        buf_puts(out, i ? ",{\"id\":" : "{\"id\":");
        json_put_str(out, x->id);
        put_member(out, "text", x->text);
        if (k->has_url)
            put_member(out, "url", x->url);
        else
            put_member(out, "service", x->service);
        buf_printf(out, ",\"time\":\"%lld\",\"created\":\"%lld\"}", (long long) x->time_ns, (long long) x->created_ns);
    }
    buf_puts(out, "]}");
}

static int save(struct call *c, const struct mark_kind *k, const struct marks *m, struct err *e)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;

    put_marks(&text, k, m);
    return buf_error(&text)
               ? buf_error(&text)
               : tenant_files_put(front_options(c->front)->files, c->who.tenant, str_from(k->file), buf_str(&text), e);
}

/* --- requests --- */

static int run_list(struct call *c, struct err *e)
{
    const struct mark_kind *k = c->route->arg;
    struct marks *m = NULL;
    int r = load(c, k, &m, e);

    if (r == 0)
        put_marks(&c->out, k, m);
    return r;
}

/* A view is a page of the web UI with its parameters: explore?query=cpu. It never leads to another site. */
static bool is_page(struct str url)
{
    uint32_t i = 0;

    while (i < url.n && url.p[i] >= 'a' && url.p[i] <= 'z')
        i++;
    if (i < url.n && url.p[i] != '?')
        return false;
    for (; i < url.n; i++)
        if ((unsigned char) url.p[i] <= ' ' || url.p[i] == '"' || url.p[i] == '<' || url.p[i] == '\\')
            return false;
    return url.n > 0 && url.n <= MARK_URL_MAX;
}

static int check_mark(const struct mark_kind *k, struct mark *m, struct err *e)
{
    m->text = str_trim(m->text);
    if (!m->text.n || m->text.n > MARK_TEXT_MAX || m->service.n > MARK_TEXT_MAX)
        return err_set(e, -EINVAL, "text: a %s has a text of 1 to %d bytes", k->what, MARK_TEXT_MAX);
    if (k->has_url && !is_page(m->url))
        return err_set(e, -EINVAL, "url: '%.*s' is not a page of the web UI such as explore?query=cpu",
                       (int) MIN(m->url.n, 80u), m->url.p);
    if (m->time_ns < 0 || m->time_ns > CLOCK_MAX)
        return err_set(e, -EINVAL, "time: not a time in nanoseconds since 1970");
    return 0;
}

static int add_locked(struct call *c, const struct mark_kind *k, const struct mark *one, struct err *e)
{
    struct marks *m = NULL;
    int r = load(c, k, &m, e);

    if (r == 0 && m->n == MARKS_MAX)
        r = err_set(e, -EDQUOT, "there are %d %ss already: delete some", MARKS_MAX, k->what);
    if (r < 0)
        return r;
    m->v[m->n++] = *one;
    return save(c, k, m, e);
}

static int run_add(struct call *c, struct err *e)
{
    const struct mark_kind *k = c->route->arg;
    uint8_t id[MARK_ID_BYTES];
    char text[2 * MARK_ID_BYTES + 1];
    struct mark m = {0};
    struct json j;
    int r;

    json_init(&j, c->q->body, &c->q->arena);
    read_mark(&j, &m);
    if (json_end(&j) < 0)
        return json_error(&j, e);
    m.created_ns = clock_wall();
    m.time_ns = m.time_ns ? m.time_ns : m.created_ns;
    r = check_mark(k, &m, e);
    if (r < 0)
        return r;
    if (getrandom(id, sizeof id, 0) != (ssize_t) sizeof id)
        return err_set(e, -EIO, "cannot get random bytes for an ID");
    *hex_write(text, id, sizeof id) = 0;
    m.id = str_from(text);
    pthread_mutex_lock(&writers);
    r = add_locked(c, k, &m, e);
    pthread_mutex_unlock(&writers);
    if (r == 0)
        buf_printf(&c->out, "{\"id\":\"%s\"}", text);
    return r;
}

static int remove_locked(struct call *c, const struct mark_kind *k, struct err *e)
{
    struct marks *m = NULL;
    uint32_t n = 0;
    int r = load(c, k, &m, e);

    for (uint32_t i = 0; r == 0 && i < m->n; i++)
        if (!str_eq(m->v[i].id, c->path_arg))
            m->v[n++] = m->v[i];
    if (r == 0 && n == m->n)
        return err_set(e, -ENOENT, "there is no such %s", k->what);
    if (r < 0)
        return r;
    m->n = n;
    return save(c, k, m, e);
}

static int run_remove(struct call *c, struct err *e)
{
    int r;

    pthread_mutex_lock(&writers);
    r = remove_locked(c, c->route->arg, e);
    pthread_mutex_unlock(&writers);
    if (r == 0)
        buf_puts(&c->out, "{}");
    return r;
}

static const struct route routes[] = {
    {"GET", "/api/v1/notes", AUTH_READ, .run = run_list, .arg = &notes},
    {"POST", "/api/v1/notes", AUTH_WRITE, .run = run_add, .arg = &notes},
    {"DELETE", "/api/v1/notes/{id}", AUTH_WRITE, .run = run_remove, .arg = &notes},
    {"GET", "/api/v1/views", AUTH_READ, .run = run_list, .arg = &views},
    {"POST", "/api/v1/views", AUTH_WRITE, .run = run_add, .arg = &views},
    {"DELETE", "/api/v1/views/{id}", AUTH_WRITE, .run = run_remove, .arg = &views},
};

int api_mount_marks(struct front *f)
{
    return front_mount(f, routes, ARRAY_SIZE(routes));
}
