/* SPDX-License-Identifier: Apache-2.0 */
/* Writes profiles of a store to a file, batch by batch (store_export.h). */
#include "store/store_export.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/compress.h"
#include "base/fd.h"
#include "codec/pprof.h"
#include "model/builder.h"
#include "model/convert.h"
#include "store/store.h"

struct store_exporting {
    int fd;
    enum otlp_file_form form; /* OTLP_FILE_NONE: pprof, collected in `all` */
    struct builder *all;
    uint64_t profiles;
    struct err *e;
};

static int export_batch(void *ctx, struct batch *b)
{
    struct store_exporting *x = ctx;
    _cleanup_(batch_unrefp) struct batch *split = NULL;
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    int r;

    x->profiles += b->n_profiles;
    if (x->form == OTLP_FILE_NONE)
        return builder_append(x->all, b);
    r = convert_split_types(b, &split, x->e);
    if (r == 0)
        r = otlp_file_encode(x->form, split, &out, x->e);
    if (r == 0)
        r = fd_write_all(x->fd, out.p, out.n);
    return r < 0 && x->e->code == 0 ? err_set(x->e, r, "cannot write the export: %m") : r;
}

static int finish_pprof(struct store_exporting *x)
{
    _cleanup_(batch_unrefp) struct batch *all = NULL, *joined = NULL, *one = NULL;
    _cleanup_(buf_done) struct buf raw = BUF_INIT, packed = BUF_INIT;
    int r = builder_finish(x->all, &all, x->e);

    if (r == 0)
        r = convert_join_types(all, &joined, x->e);
    if (r == 0)
        r = convert_to_single(joined, &one, x->e);
    if (r == 0 && !one->n_profiles)
        r = err_set(x->e, -ENODATA, "no profile matches");
    if (r == 0)
        r = pprof_encode(one, &one->profiles[0], &raw, x->e);
    if (r == 0)
        r = compress_deflate(COMPRESS_GZIP, 0, raw.p, raw.n, &packed, x->e);
    if (r == 0)
        r = fd_write_all(x->fd, packed.p, packed.n);
    return r;
}

int store_export_parse(const char *name, enum otlp_file_form *ret)
{
    if (strcmp(name, "otlp") == 0)
        *ret = OTLP_FILE_FRAMED;
    else if (strcmp(name, "json") == 0)
        *ret = OTLP_FILE_JSON;
    else if (strcmp(name, "pprof") == 0)
        *ret = OTLP_FILE_NONE;
    else
        return -EINVAL;
    return 0;
}

int store_export_run(struct store *s, const struct store_query *q, const struct store_export *how,
                     uint64_t *ret_profiles, struct err *e)
{
    struct store_exporting x = {.fd = STDOUT_FILENO, .form = how->form, .e = e};
    int r = 0;

    if (how->output && strcmp(how->output, "-") != 0)
        r = x.fd = fd_open(AT_FDCWD, how->output, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (r < 0)
        return err_set(e, r, "cannot create '%s': %m", how->output);
    r = x.form == OTLP_FILE_NONE ? builder_new(NULL, &x.all) : 0;
    if (r == 0)
        r = s->ops->export(s, q, export_batch, &x, e);
    if (r == 0 && x.form == OTLP_FILE_NONE)
        r = finish_pprof(&x);
    builder_free(x.all);
    if (x.fd != STDOUT_FILENO)
        fd_close(x.fd);
    *ret_profiles = x.profiles;
    return r;
}
