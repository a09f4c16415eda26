/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the configuration for --scrape, node by node (scrape_config.h). */
#include "host/scrape_config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/url.h"
#include "conf/args.h"
#include "conf/conf_make.h"
#include "conf/yaml.h"
#include "net/http.h"

struct str scrape_config_base(const char *url)
{
    struct str s = str_from(url);

    while (str_ends(s, STR("/")))
        s.n--;
    if (str_ends(s, STR("/debug/pprof")))
        s.n -= (uint32_t) strlen("/debug/pprof");
    return s;
}

static int check(const char *text, struct err *e)
{
    char shown[URL_SHOWN], with[600];
    struct http_url url;

    for (const char *p = text; *p; p++)
        if (*p <= ' ' || *p == '\'' || *p == 0x7f)
            return err_set(e, -EINVAL, "--scrape: '%s' contains a character that a URL cannot have",
                           url_redact(text, shown, sizeof shown));
    snprintf(with, sizeof with, "%s%s", strstr(text, "://") ? "" : "http://", text);
    if (http_url_parse(with, &url, NULL) < 0)
        return err_set(e, -EINVAL, "--scrape: '%s' is not a URL such as http://localhost:8080",
                       url_redact(text, shown, sizeof shown));
    return 0;
}

/* The receiver `pprof/scrape` with a target for each URL. */
static int put_receiver(struct conf_maker *m, struct conf_node *root, const struct arg_list *urls, struct err *e)
{
    struct conf_node *receiver = make_map(m, make_map(m, root, "receivers"), "pprof/scrape");
    struct conf_node *targets = make_node(m, receiver, "targets", CONF_LIST);

    for (size_t i = 0; i < urls->n; i++) {
        int r = check(urls->v[i], e);

        if (r < 0)
            return r;
        make_string(m, make_node(m, targets, NULL, CONF_MAP), "endpoint", scrape_config_base(urls->v[i]));
    }
    make_text(m, receiver, "name_from_program", STR("true"));
    return m->r;
}

int scrape_config_add(struct conf *c, const struct arg_list *urls, const char *exporter, struct err *e)
{
    struct conf_maker m = {c, "--scrape", 0};
    struct conf_node *root, *service, *pipeline;
    int r;

    if (!urls || !urls->n)
        return 0;
    root = conf_new(c, CONF_MAP, "--scrape", 1);
    if (!root)
        return -ENOMEM;
    r = put_receiver(&m, root, urls, e);
    if (r < 0)
        return r;
    if (strcmp(exporter, "sink") == 0)
        make_map(&m, make_map(&m, root, "exporters"), "sink");
    service = make_map(&m, root, "service");
    if (!c->root || !conf_get(c->root, "service")) /* no listener for the pipeline's own metrics unless configured */
        make_text(&m, make_map(&m, make_map(&m, service, "telemetry"), "metrics"), "level", STR("none"));
    pipeline = make_map(&m, make_map(&m, service, "pipelines"), "profiles/scrape");
    make_list(&m, pipeline, "receivers", (const char *const[]){"pprof/scrape", NULL});
    make_list(&m, pipeline, "exporters", (const char *const[]){exporter, NULL});
    if (m.r < 0)
        return m.r;
    c->root = c->root ? conf_merge(c, c->root, root) : root;
    return c->root ? 0 : -ENOMEM;
}

struct str scrape_config_program(const char *answer, size_t n)
{
    const char *body = strstr(answer, "\r\n\r\n");
    struct str name;

    if (n < sizeof "HTTP/1.1 200" - 1 || !str_starts((struct str){answer, (uint32_t) n}, STR("HTTP/1.")) ||
        strncmp(answer + 8, " 200", 4) != 0 || !body)
        return (struct str){0};
    if (!strstr(answer, "text/plain"))
        return (struct str){0};
    name = str_from(body + 4); /* ends at the first NUL, as argv[0] does */
    for (ptrdiff_t slash; (slash = str_find_char(name, '/')) >= 0;)
        name = str_slice(name, (size_t) slash + 1, name.n);
    for (uint32_t i = 0; i < name.n; i++)
        if ((unsigned char) name.p[i] < ' ')
            return (struct str){0};
    return name.n && name.n < 200 && str_is_utf8(name) ? name : (struct str){0};
}
