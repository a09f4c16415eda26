/* SPDX-License-Identifier: Apache-2.0 */
/* What the status endpoint reports to the web UI, and reading the source files that it shows. See ui_info.h. */
#include "server/ui_info.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "server/serve_config.h"
#include "server/source_link.h"

enum { SOURCE_MAX = 8 << 20 };

static pthread_rwlock_t settings_lock = PTHREAD_RWLOCK_INITIALIZER; /* protects the settings of every ui_info */

void ui_info_change(struct ui_info *i, const struct ui_settings *s)
{
    pthread_rwlock_wrlock(&settings_lock);
    i->settings = *s;
    pthread_rwlock_unlock(&settings_lock);
}

static void put_value(struct buf *out, const char *value)
{
    if (value)
        json_put_str(out, str_from(value));
    else
        buf_puts(out, "null");
}

static void put_text(struct buf *out, const char *key, const char *value)
{
    buf_printf(out, ",\"%s\":", key);
    put_value(out, value);
}

static void put_files(const struct ui_info *i, struct buf *out)
{
    buf_puts(out, ",\"files\":[");
    for (uint32_t k = 0; k < i->n_files; k++) {
        buf_puts(out, k ? ",{\"name\":" : "{\"name\":");
        json_put_str(out, str_from(i->files[k].name));
        put_text(out, "type", i->files[k].type);
        buf_putc(out, '}');
    }
    buf_putc(out, ']');
    put_text(out, "query", i->default_query);
    if (i->base_query)
        put_text(out, "baseQuery", i->base_query);
    if (i->to)
        buf_printf(out, ",\"from\":\"%lld\",\"to\":\"%lld\"", (long long) i->from, (long long) i->to);
}

static void put_links(const struct ui_settings *i, struct buf *out)
{
    bool first = true;

    buf_puts(out, ",\"links\":[");
    for (uint32_t k = 0; k < i->n_sources; k++) {
        _cleanup_(buf_done) struct buf link = BUF_INIT;

        if (!source_link_template(&i->sources[k], &link))
            continue;
        json_sep(out, &first);
        buf_puts(out, "{\"name\":");
        json_put_str(out, str_from(i->sources[k].repository ? i->sources[k].repository : i->sources[k].prefix));
        put_text(out, "prefix", i->sources[k].prefix);
        put_text(out, "template", buf_cstr(&link));
        buf_putc(out, '}');
    }
    buf_putc(out, ']');
}

static void put_agent(const struct ui_info *i, struct buf *out)
{
    buf_puts(out, ",\"agent\":{");
    if (i->agent_json) {
        i->agent_json(i->agent, out);
    } else {
        buf_puts(out, "\"state\":");
        json_put_str(out, str_from(i->agent_state));
        put_text(out, "reason", i->agent_reason);
        put_text(out, "fix", i->agent_fix);
    }
    buf_putc(out, '}');
}

static void put_settings(const struct ui_settings *i, struct buf *out)
{
    put_links(i, out);
    if (i->price_per_core_hour > 0) {
        buf_puts(out, ",\"pricePerCoreHour\":");
        json_put_double(out, i->price_per_core_hour);
        put_text(out, "currency", i->currency);
    }
    if (i->own_code && i->own_code[0])
        put_text(out, "ownCode", i->own_code);
    if (i->trace_link && i->trace_link[0])
        put_text(out, "traceLink", i->trace_link);
}

void ui_info_json(const struct ui_info *i, struct buf *out)
{
    char host[256] = "";

    put_text(out, "mode", i->mode);
    if (i->n_files)
        put_files(i, out);
    if (gethostname(host, sizeof host - 1) == 0)
        put_text(out, "host", host);
    if (i->otlp_grpc || i->otlp_http || i->otlp_note) {
        buf_puts(out, ",\"otlp\":{\"grpc\":");
        put_value(out, i->otlp_grpc);
        put_text(out, "http", i->otlp_http);
        buf_putc(out, '}');
    }
    if (i->otlp_note)
        put_text(out, "otlpNote", i->otlp_note);
    if (i->agent_state)
        put_agent(i, out);
    if (i->demo_end)
        buf_printf(out, ",\"demo\":{\"deploy\":\"%lld\",\"end\":\"%lld\"}", (long long) i->demo_deploy,
                   (long long) i->demo_end);
    pthread_rwlock_rdlock(&settings_lock);
    put_settings(&i->settings, out);
    pthread_rwlock_unlock(&settings_lock);
}

/* --- source files --- */

/* Reads dir/rest; the kernel ensures that the path stays below dir, because names come from profiles, and symbolic
 * links may lead anywhere. */
static int read_below(const char *dir, struct str rest, struct buf *out, int64_t *ret_modified, struct err *e)
{
    _cleanup_(fd_closep) int fd = -1;
    char path[PATH_MAX];
    struct stat st;
    int r;

    while (rest.n && rest.p[0] == '/')
        rest = str_slice(rest, 1, rest.n);
    if (str_find_char(rest, 0) >= 0 || rest.n >= sizeof path)
        return -ENOENT;
    snprintf(path, sizeof path, "%.*s", STR_FMT(rest));
    fd = fd_open_beneath(dir, path);
    if (fd < 0)
        return -ENOENT;
    r = fd_read_all(fd, SOURCE_MAX, out);
    if (r < 0)
        return err_set(e, r, "cannot read %s: %s", path, strerror(-r));
    if (fstat(fd, &st) == 0)
        *ret_modified = (int64_t) st.st_mtim.tv_sec * NS_PER_S + st.st_mtim.tv_nsec;
    return 0;
}

/* Reads from the configured folders; *ret_known: one of them should have the file. */
static int read_configured(const struct ui_settings *i, struct str file, struct buf *out, int64_t *ret_modified,
                           bool *ret_known, struct err *e)
{
    int r = -ENOENT;

    for (uint32_t k = 0; r < 0 && k < i->n_sources; k++) {
        const struct serve_source *s = &i->sources[k];
        struct str prefix = str_from(s->prefix);

        if (!s->dir || !str_starts(file, prefix))
            continue;
        *ret_known = true;
        r = read_below(s->reached ? s->reached : s->dir, str_slice(file, prefix.n, file.n), out, ret_modified, e);
    }
    return r;
}

void ui_info_links(const struct ui_info *i, struct str file, uint64_t line, struct str revision, struct buf *out)
{
    bool first = true;

    buf_puts(out, "{\"links\":[");
    pthread_rwlock_rdlock(&settings_lock);
    for (uint32_t k = 0; k < i->settings.n_sources; k++) {
        const struct serve_source *s = &i->settings.sources[k];
        _cleanup_(buf_done) struct buf url = BUF_INIT;

        if (!source_link(s, file, line, revision, &url))
            continue;
        json_sep(out, &first);
        buf_puts(out, "{\"name\":");
        json_put_str(out, str_from(s->repository ? s->repository : s->prefix));
        buf_puts(out, ",\"url\":");
        json_put_str(out, buf_str(&url));
        buf_putc(out, '}');
    }
    pthread_rwlock_unlock(&settings_lock);
    buf_puts(out, "]}\n");
}

int ui_info_source(const struct ui_info *i, struct str file, struct buf *out, int64_t *ret_modified, struct err *e)
{
    bool known = false;
    int r;

    *ret_modified = 0;
    if (!file.n)
        return err_set(e, -EINVAL, "file: the name of a source file is required");
    pthread_rwlock_rdlock(&settings_lock);
    r = read_configured(&i->settings, file, out, ret_modified, &known, e);
    pthread_rwlock_unlock(&settings_lock);
    if (r >= 0)
        return 0;
    if (i->read_source)
        return i->read_source(i->ctx, file, out, e);
    return err_set(e, -ENOENT,
                   known ? "the directories configured under 'source' in wick.yaml do not contain %.*s"
                         : "no directory is configured for %.*s: set 'source' with prefix and dir in wick.yaml",
                   STR_FMT(file));
}
