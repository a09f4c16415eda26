/* SPDX-License-Identifier: Apache-2.0 */
/* Routes that the web UI needs besides the questions: senders, source files and instructions. */
#include <errno.h>

#include "base/clock.h"
#include "base/json.h"
#include "server/api.h"
#include "server/front.h"
#include "server/ui_info.h"

static int run_senders(struct call *c, struct err *e)
{
    const struct ui_info *i = front_options(c->front)->ui;

    (void) e;
    if (!i || !i->senders) {
        buf_puts(&c->out, "{\"senders\":[]}\n");
        return 0;
    }
    return i->senders_json(i->senders, c->who.tenant, clock_wall(), &c->out);
}

static int run_source(struct call *c, struct err *e)
{
    static const struct ui_info none;
    const struct ui_info *i = front_options(c->front)->ui;
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    struct str file = call_param(c, "file");
    int64_t modified = 0;
    int r = c->who.tenant[0] ? err_set(e, -ENOENT, "source files are available to the default tenant only")
                             : ui_info_source(i ? i : &none, file, &text, &modified, e);
    bool soft = r == -ENOENT && str_is(call_param(c, "missing"), "ok");

    if (r < 0 && !soft)
        return r;
    buf_puts(&c->out, "{\"file\":");
    json_put_str(&c->out, file);
    buf_puts(&c->out, ",\"text\":");
    if (soft) {
        buf_puts(&c->out, "null,\"reason\":");
        json_put_str(&c->out, str_from(err_message(e, r)));
    } else
        json_put_str(&c->out, buf_str(&text));
    if (modified)
        buf_printf(&c->out, ",\"modified\":\"%lld\"", (long long) modified);
    buf_puts(&c->out, "}\n");
    return 0;
}

/* An address is a number in base 10, or in base 16 with 0x. */
static int param_address(struct call *c, const char *name, uint64_t *ret, struct err *e)
{
    struct str text = call_param(c, name);
    int r = text.n ? str_to_u64(text, 0, ret) : 0;

    return r < 0 ? err_set(e, -EINVAL, "%s: '%.*s' is not an address", name, STR_FMT(text)) : 0;
}

static int run_code(struct call *c, struct err *e)
{
    const struct ui_info *i = front_options(c->front)->ui;
    struct ui_code q = {.tenant = c->who.tenant, .build_id = call_param(c, "build_id"), .file = call_param(c, "file")};
    int r = param_address(c, "address", &q.address, e);

    if (r == 0)
        r = param_address(c, "end", &q.end, e);
    if (r < 0)
        return r;
    if (!q.build_id.n || !q.address)
        return err_set(e, -EINVAL, "build_id and address are required");
    r = i && i->code ? i->code(i->code_ctx, &q, &c->out, e) : err_set(e, -ENOENT, "this server reads no binaries");
    if (r != -ENOENT || !str_is(call_param(c, "missing"), "ok"))
        return r;
    buf_reset(&c->out);
    buf_puts(&c->out, "{\"instructions\":[],\"reason\":");
    json_put_str(&c->out, str_from(err_message(e, r)));
    buf_puts(&c->out, "}\n");
    return 0;
}

static int run_source_links(struct call *c, struct err *e)
{
    static const struct ui_info none;
    const struct ui_info *i = front_options(c->front)->ui;
    struct str file = call_param(c, "file"), revision = call_param(c, "version");
    uint64_t line = 1;
    int r = call_param_u64(c, "line", &line, e);

    if (r < 0)
        return r;
    if (!file.n)
        return err_set(e, -EINVAL, "file: the name of a source file is required");
    ui_info_links(i ? i : &none, file, line, revision, &c->out);
    return 0;
}

static const struct route routes[] = {
    {"GET", "/api/v1/senders", AUTH_READ, false, run_senders},
    {"GET", "/api/v1/code", AUTH_READ, false, run_code},
    {"GET", "/api/v1/source", AUTH_READ, false, run_source},
    {"GET", "/api/v1/source/links", AUTH_READ, true, run_source_links},
};

int api_mount_views(struct front *f)
{
    return front_mount(f, routes, ARRAY_SIZE(routes));
}
