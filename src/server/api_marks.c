/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/v1/notes and /api/v1/views: what people write on charts ("cache warmed at 14:02"), and views of the web UI that they
 * save. Both are kept per tenant, each in one file (tenant_files.h), an array of objects:
 *
 *     {"notes":[{"id":"5f2c…","time":"1763269200000000000","service":"checkout","text":"cache warmed","created":"…"}]}
 *
 * The file is read for each request and replaced as a whole, one request at a time.
 */
#include <errno.h>
#include <pthread.h>
#include <sys/random.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/record.h"
#include "server/api.h"
#include "server/front.h"
#include "server/tenant_files.h"

enum { MARKS_MAX = 500, MARK_TEXT_MAX = 2000, MARK_URL_MAX = 8000, MARK_ID_BYTES = 8 };

struct mark {
    struct str id, service, text, url;
    int64_t time_ns, created_ns;
};

static const struct record_field note_fields[] = {
    {"id", RECORD_STR, offsetof(struct mark, id), .flags = RECORD_OURS},
    {"text", RECORD_STR, offsetof(struct mark, text), MARK_TEXT_MAX, "what is shown", RECORD_REQUIRED},
    {"service", RECORD_STR, offsetof(struct mark, service), MARK_TEXT_MAX, "on charts of this service only"},
    {"time", RECORD_NS, offsetof(struct mark, time_ns), 0, "when it happened; now if it is left out"},
    {"created", RECORD_NS, offsetof(struct mark, created_ns), .flags = RECORD_OURS},
    {0},
};

static const struct record_field view_fields[] = {
    {"id", RECORD_STR, offsetof(struct mark, id), .flags = RECORD_OURS},
    {"text", RECORD_STR, offsetof(struct mark, text), MARK_TEXT_MAX, "its name", RECORD_REQUIRED},
    {"url", RECORD_STR, offsetof(struct mark, url), MARK_URL_MAX, "a page of the web UI: explore?query=cpu",
     RECORD_REQUIRED},
    {"time", RECORD_NS, offsetof(struct mark, time_ns), 0, "now if it is left out"},
    {"created", RECORD_NS, offsetof(struct mark, created_ns), .flags = RECORD_OURS},
    {0},
};

#define MARK_LIST(name, mark_fields)                                                           \
    {                                                                                          \
        {name, RECORD_LIST, 0, MARKS_MAX, .fields = mark_fields, .size = sizeof(struct mark)}, \
        {                                                                                      \
            0                                                                                  \
        }                                                                                      \
    }
static const struct record_field note_list[] = MARK_LIST("notes", note_fields),
                                 view_list[] = MARK_LIST("views", view_fields);

/* Where marks of a kind are kept, and what they are called in answers. */
struct mark_kind {
    const char *file, *what;
    const struct record_field *fields, *list;
};
static struct mark_kind notes = {"notes.json", "note", note_fields, note_list},
                        views = {"views.json", "view", view_fields, view_list};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* --- the file --- */

/* With the lock held. */
static int load(struct call *c, const struct mark_kind *k, struct record_list *ret, struct err *e)
{
    struct arena *a = &c->q->arena;
    struct tenant_files *files = front_options(c->front)->files;
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    struct str kept;
    int r;

    *ret = (struct record_list){0};
    if (!files)
        return err_set(e, -ENOENT, "this server keeps no %ss", k->what);
    r = tenant_files_get(files, c->who.tenant, str_from(k->file), &text, e);
    if (r == 0) {
        kept = arena_str(a, buf_str(&text));
        r = kept.p ? record_read(kept, k->list, RECORD_FILE, a, ret, e) : -ENOMEM;
    }
    if (r == 0 || r == -ENOENT)
        return 0;
    *ret = (struct record_list){0};
    return tenant_files_recover(files, c->who.tenant, str_from(k->file), r, e);
}

static int save(struct call *c, const struct mark_kind *k, const struct record_list *m, struct err *e)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;

    record_put(&text, k->list, m);
    return buf_error(&text)
               ? buf_error(&text)
               : tenant_files_put(front_options(c->front)->files, c->who.tenant, str_from(k->file), buf_str(&text), e);
}

/* --- requests --- */

static int run_list(struct call *c, struct err *e)
{
    const struct mark_kind *k = c->route->arg;
    struct record_list m;
    int r;

    pthread_mutex_lock(&lock);
    r = load(c, k, &m, e);
    pthread_mutex_unlock(&lock);
    if (r == 0)
        record_put(&c->out, k->list, &m);
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
    return url.n > 0;
}

static int check_mark(const struct mark_kind *k, struct mark *m, struct err *e)
{
    m->text = str_trim(m->text);
    if (!m->text.n)
        return err_set(e, -EINVAL, "text: a %s has a text of 1 to %d bytes", k->what, MARK_TEXT_MAX);
    if (k == &views && !is_page(m->url))
        return err_set(e, -EINVAL, "url: '%.*s' is not a page of the web UI such as explore?query=cpu",
                       (int) MIN(m->url.n, 80u), m->url.p);
    return 0;
}

static int add_locked(struct call *c, const struct mark_kind *k, const struct mark *one, struct err *e)
{
    struct record_list m;
    struct mark *more;
    int r = load(c, k, &m, e);

    if (r == 0 && m.n == MARKS_MAX)
        r = err_set(e, -EDQUOT, "there are %d %ss already: delete some", MARKS_MAX, k->what);
    if (r < 0)
        return r;
    more = arena_zalloc_array(&c->q->arena, m.n + 1, sizeof *more);
    if (!more)
        return -ENOMEM;
    if (m.n)
        memcpy(more, m.v, m.n * sizeof *more);
    more[m.n] = *one;
    return save(c, k, &(struct record_list){more, m.n + 1}, e);
}

static int run_add(struct call *c, struct err *e)
{
    const struct mark_kind *k = c->route->arg;
    uint8_t id[MARK_ID_BYTES];
    char text[2 * MARK_ID_BYTES + 1];
    struct mark m = {0};
    int r = record_read(c->q->body, k->fields, RECORD_CLIENT, &c->q->arena, &m, e);

    m.created_ns = clock_wall();
    m.time_ns = m.time_ns ? m.time_ns : m.created_ns;
    if (r == 0)
        r = check_mark(k, &m, e);
    if (r < 0)
        return r;
    if (getrandom(id, sizeof id, 0) != (ssize_t) sizeof id)
        return err_set(e, -EIO, "cannot get random bytes for an ID");
    *hex_write(text, id, sizeof id) = 0;
    m.id = str_from(text);
    pthread_mutex_lock(&lock);
    r = add_locked(c, k, &m, e);
    pthread_mutex_unlock(&lock);
    if (r == 0)
        buf_printf(&c->out, "{\"id\":\"%s\"}", text);
    return r;
}

static int remove_locked(struct call *c, const struct mark_kind *k, struct err *e)
{
    struct record_list m;
    uint32_t n = 0;
    int r = load(c, k, &m, e);
    struct mark *v = m.v;

    for (uint32_t i = 0; r == 0 && i < m.n; i++)
        if (!str_eq(v[i].id, c->path_arg))
            v[n++] = v[i];
    if (r == 0 && n == m.n)
        return err_set(e, -ENOENT, "there is no such %s", k->what);
    return r < 0 ? r : save(c, k, &(struct record_list){v, n}, e);
}

static int run_remove(struct call *c, struct err *e)
{
    int r;

    pthread_mutex_lock(&lock);
    r = remove_locked(c, c->route->arg, e);
    pthread_mutex_unlock(&lock);
    if (r == 0)
        buf_puts(&c->out, "{}");
    return r;
}

static const struct route routes[] = {
    {"GET", "/api/v1/notes", AUTH_READ, .run = run_list, .arg = &notes, .answer = note_list},
    {"POST", "/api/v1/notes", AUTH_WRITE, .run = run_add, .arg = &notes, .body = note_fields},
    {"DELETE", "/api/v1/notes/{id}", AUTH_WRITE, .run = run_remove, .arg = &notes},
    {"GET", "/api/v1/views", AUTH_READ, .run = run_list, .arg = &views, .answer = view_list},
    {"POST", "/api/v1/views", AUTH_WRITE, .run = run_add, .arg = &views, .body = view_fields},
    {"DELETE", "/api/v1/views/{id}", AUTH_WRITE, .run = run_remove, .arg = &views},
};

int api_mount_marks(struct front *f)
{
    return front_mount(f, routes, ARRAY_SIZE(routes));
}
