/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the options of an agent to a memory file and reads them back (agent_options.h). */
#include "host/agent_options.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/sealed.h"
#include "host/agent_run.h"

enum { OPTIONS_MAX = 16 << 20 };

#define AT(field) offsetof(struct agent_run_options, field)
static const size_t texts[] = {
    AT(export), AT(server),      AT(token),        AT(k8s_api),      AT(log_format),
    AT(stats),  AT(watch.types), AT(watch.events), AT(watch.unwind), AT(watch.via),
};
static const size_t lists[] = {
    AT(scrape), AT(watch.pids), AT(watch.include), AT(watch.exclude), AT(watch.rename),
};

static const char **text_at(struct agent_run_options *o, size_t i)
{
    return (const char **) ((char *) o + texts[i]);
}

static struct arg_list *list_at(struct agent_run_options *o, size_t i)
{
    return (struct arg_list *) ((char *) o + lists[i]);
}

static void put(struct buf *out, const char *text)
{
    buf_put(out, text, strlen(text) + 1);
}

int agent_options_send(const struct agent_run_options *options, int *ret_fd, struct err *e)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    struct agent_run_options o = *options, sent = *options;
    struct str all;
    int r;

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) /* no address of this process leaves it */
        memset(text_at(&sent, i), *text_at(&o, i) ? 1 : 0, sizeof(char *));
    for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
        memset(list_at(&sent, i)->v, 0, sizeof list_at(&sent, i)->v);
    buf_put(&out, &sent, sizeof sent);
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        if (*text_at(&o, i))
            put(&out, *text_at(&o, i));
    for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
        for (size_t k = 0; k < list_at(&o, i)->n; k++)
            put(&out, list_at(&o, i)->v[k]);
    all = buf_str(&out);
    r = buf_error(&out) ? buf_error(&out) : sealed_new("agent options", &all, 1, ret_fd);
    return r < 0 ? err_set(e, r, "cannot hand the options to the agent: %s", strerror(-r)) : 0;
}

/* The next text, copied; NULL at the end of the file, or without memory. */
static const char *take(struct str *rest, struct arena *a)
{
    struct str text = *rest;
    ptrdiff_t end = str_find_char(text, 0);

    if (end < 0)
        return NULL;
    *rest = str_slice(text, (size_t) end + 1, text.n);
    return arena_cstr(a, str_slice(text, 0, (size_t) end));
}

static int read_options(struct str all, struct arena *a, struct agent_run_options *o)
{
    struct str rest = str_slice(all, sizeof *o, all.n);

    memcpy(o, all.p, sizeof *o);
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        if (*text_at(o, i) && !(*text_at(o, i) = take(&rest, a)))
            return -EBADMSG;
    for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
        struct arg_list *l = list_at(o, i);

        if (l->n > ARG_LIST_MAX)
            return -EBADMSG;
        for (size_t k = 0; k < l->n; k++)
            if (!(l->v[k] = take(&rest, a)))
                return -EBADMSG;
    }
    return rest.n ? -EBADMSG : 0;
}

int agent_options_receive(int fd, struct arena *a, struct agent_run_options *ret, struct err *e)
{
    struct agent_run_options o;
    void *p = NULL;
    size_t n = 0;
    int r = sealed_map(fd, OPTIONS_MAX, &p, &n);

    if (r == 0)
        r = n < sizeof o ? -EBADMSG : read_options((struct str){p, (uint32_t) n}, a, &o);
    if (p)
        munmap(p, n);
    fd_close(fd);
    if (r < 0)
        return err_set(e, r, "descriptor %d does not contain the options of an agent", fd);
    o.feed_fd = ret->feed_fd;
    *ret = o;
    return 0;
}
