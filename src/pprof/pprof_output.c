/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a report and sends it to its destination (pprof_output.h). */
#include "pprof/pprof_output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/printable.h"
#include "pprof/pprof_objects.h"
#include "pprof/pprof_source.h"
#include "pprof/pprof_view.h"
#include "report/report_driver.h"
#include "report/source.h"

static int make_proto(struct report *r, struct buf *out, struct err *e)
{
    _cleanup_(prof_freep) struct prof *made = NULL;
    int n = report_proto(r, &made, e);

    return n < 0 ? n : pprof_write(made ? made : r->prof, out, e);
}

static struct str object_tools;

void pprof_output_tools(struct str tools)
{
    object_tools = tools;
}

/* The reports that read binaries and sources. */
static int make_source_report(struct report *r, struct buf *out, struct err *e)
{
    _cleanup_(pprof_objects_freep) struct pprof_objects *o = NULL;
    int n;

    if (r->o.format == REPORT_LIST)
        return report_list(r, out, e);
    n = pprof_objects_new(object_tools, &o, e);
    if (n < 0)
        return n;
    if (r->o.format == REPORT_DISASM)
        return report_disasm(r, pprof_objects_table(o), out, e);
    return report_weblist(r, pprof_objects_table(o), out, e);
}

static int make_report(struct prof *p, const struct pprof_command *c, struct str argument,
                       const struct pprof_config *config, struct buf *out, struct err *e)
{
    const struct report_command cmd = {c->name, c->format, argument};
    struct report_run run;
    int r = report_run_prepare(&run, p, &cmd, config, &(struct report_say){pprof_say, NULL}, e);

    if (r >= 0 && (c->format == REPORT_PROTO || c->format == REPORT_TOPPROTO))
        r = make_proto(&run.report, out, e);
    else if (r >= 0 && (c->format == REPORT_LIST || c->format == REPORT_WEBLIST || c->format == REPORT_DISASM))
        r = make_source_report(&run.report, out, e);
    else if (r >= 0)
        r = report_print(&run.report, out, e);
    report_run_done(&run);
    return r;
}

static int write_file(const char *path, const struct buf *b, struct err *e)
{
    int fd = fd_open(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, 0666), r;

    if (fd < 0)
        return err_set(e, fd, "open %s: %s", path, fd == -ENOENT ? "no such file or directory" : strerror(-fd));
    r = fd_write_all(fd, b->p, b->n);
    fd_close(fd);
    return r < 0 ? err_set(e, r, "write %s: %m", path) : 0;
}

/* Binary formats are never written to a terminal. */
static int show_in_file(const struct pprof_command *c, const struct buf *b, bool shell, struct err *e)
{
    _cleanup_(buf_done) struct buf path = BUF_INIT, suffix = BUF_INIT;
    int fd, r;

    if (!shell && !isatty(STDOUT_FILENO))
        return fd_write_all(STDOUT_FILENO, b->p, b->n);
    buf_printf(&suffix, ".%s", c->suffix);
    fd = pprof_temp_file("", STR("profile"), buf_cstr(&suffix), &path, e);
    if (fd < 0)
        return fd;
    fprintf(stderr, "Generating report in %s\n", path.p);
    r = fd_write_all(fd, b->p, b->n);
    fd_close(fd);
    return r;
}

static int show(const struct pprof_command *c, const struct buf *b, bool shell, struct err *e)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;

    switch (c->show) {
    case SHOW_FILE:
        return show_in_file(c, b, shell, e);
    case SHOW_VIEWER:
    case SHOW_BROWSER:
        return pprof_view(c, b, shell, e);
    case SHOW_STDOUT:
        break;
    }
    printable_put(&text, buf_str(b), true);
    return buf_error(&text) ? buf_error(&text) : fd_write_all(STDOUT_FILENO, text.p, text.n);
}

int pprof_report(struct prof *p, const struct pprof_command *c, struct str argument, const struct pprof_config *config,
                 bool shell, struct err *e)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT, path = BUF_INIT;
    int r = make_report(p, c, argument, config, &out, e);

    if (r >= 0 && c->post != POST_NONE)
        r = pprof_run_dot(c->dot_format, c->post == POST_SVG, &out, e);
    if (r < 0)
        return r;
    fflush(stdout);
    if (!config->output.n) {
        r = show(c, &out, shell, e);
        return r == -EPIPE ? 0 : r;
    }
    buf_put_str(&path, config->output);
    if (!buf_cstr(&path))
        return -ENOMEM;
    fprintf(stderr, "Generating report in %s\n", path.p);
    return write_file(path.p, &out, e);
}

void pprof_output_done(void)
{
    pprof_view_done();
}
