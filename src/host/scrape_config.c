/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the configuration for --scrape (scrape_config.h) with the assignments that --set would make. */
#include "host/scrape_config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/url.h"
#include "conf/args.h"
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

static int set(struct conf *c, struct buf *b, struct err *e)
{
    int r = buf_error(b) ? buf_error(b) : conf_set(c, buf_str(b), e);

    buf_reset(b);
    return r;
}

int scrape_config_add(struct conf *c, const struct arg_list *urls, const char *exporter, struct err *e)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    int r = 0;

    if (!urls || !urls->n)
        return 0;
    buf_printf(&b, "receivers.pprof/scrape.targets=[");
    for (size_t i = 0; r == 0 && i < urls->n; i++) {
        r = check(urls->v[i], e);
        buf_printf(&b, "%s{endpoint: '%.*s'}", i ? ", " : "", STR_FMT(scrape_config_base(urls->v[i])));
    }
    buf_printf(&b, "]");
    if (r == 0)
        r = set(c, &b, e);
    if (r == 0 && !conf_get(c->root, "service")) /* no listener for the pipeline's own metrics unless configured */
        r = conf_set(c, STR("service.telemetry.metrics.level=none"), e);
    if (r == 0)
        r = conf_set(c, STR("receivers.pprof/scrape.name_from_program=true"), e);
    if (r == 0 && strcmp(exporter, "sink") == 0)
        r = conf_set(c, STR("exporters.sink={}"), e);
    if (r == 0)
        r = conf_set(c, STR("service.pipelines.profiles/scrape.receivers=[pprof/scrape]"), e);
    if (r < 0)
        return r;
    buf_printf(&b, "service.pipelines.profiles/scrape.exporters=[%s]", exporter);
    return set(c, &b, e);
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
