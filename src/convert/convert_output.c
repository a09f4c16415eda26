/* SPDX-License-Identifier: Apache-2.0 */
/* Writes batches to files in any format (convert_output.h). The formats are in the table below; a new one is a function and
 * a line. */
#include "convert/convert_output.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/compress.h"
#include "base/fd.h"
#include "codec/folded.h"
#include "codec/jsonfile/json_write.h"
#include "codec/otlp.h"
#include "codec/pprof.h"
#include "codec/speedscope.h"
#include "conf/paths.h"
#include "convert/convert_report.h"
#include "local/local_input.h"
#include "model/batch.h"
#include "model/builder.h"
#include "model/convert.h"

/* The input of a writer: a batch, and for formats of one profile that profile and the requested type. */
struct convert_job {
    const struct convert_options *o;
    const char *in; /* name of the input, for titles */
    struct batch *b;
    const struct profile *p;
    uint32_t type;
    bool together; /* a flame graph of all profiles of b */
};

struct convert_format {
    const char *name;
    const char *extensions[4];
    const char *help;
    bool one_profile; /* writes job.p only, not all of job.b */
    enum compression compression;
    int (*write)(const struct convert_job *j, struct buf *out, struct err *e);
};

static int write_pprof(const struct convert_job *j, struct buf *out, struct err *e)
{
    return pprof_encode(j->b, j->p, out, e);
}

static int write_otlp(const struct convert_job *j, struct buf *out, struct err *e)
{
    _cleanup_(batch_unrefp) struct batch *b = NULL;
    int r = builder_reached(j->b, &b, e);

    return r < 0 ? r : otlp_encode(b, NULL, out, e);
}

static int write_otlp_json(const struct convert_job *j, struct buf *out, struct err *e)
{
    _cleanup_(batch_unrefp) struct batch *b = NULL;
    int r = builder_reached(j->b, &b, e);

    if (r >= 0)
        r = otlp_json_encode(b, out, e);
    buf_putc(out, '\n');
    return r < 0 ? r : buf_error(out);
}

static int write_folded(const struct convert_job *j, struct buf *out, struct err *e)
{
    return folded_encode(j->b, j->p, j->type, j->o->annotate, out, e);
}

static int write_speedscope(const struct convert_job *j, struct buf *out, struct err *e)
{
    return speedscope_encode(j->b, j->p, str_from(j->in), out, e);
}

static int write_cpuprofile(const struct convert_job *j, struct buf *out, struct err *e)
{
    return cpuprofile_encode(j->b, j->p, j->type, out, e);
}

static int write_firefox(const struct convert_job *j, struct buf *out, struct err *e)
{
    return firefox_encode(j->b, j->p, j->type, str_from(j->in), out, e);
}

static int write_html(const struct convert_job *j, struct buf *out, struct err *e)
{
    if (j->together)
        return convert_together(j->b, j->in, false, out, e);
    return convert_html(&(struct convert_view){j->b, j->p, j->type, j->in}, j->o->base, out, e);
}

static int write_svg(const struct convert_job *j, struct buf *out, struct err *e)
{
    if (j->together)
        return convert_together(j->b, j->in, true, out, e);
    return convert_svg(&(struct convert_view){j->b, j->p, j->type, j->in}, out, e);
}

static int write_callgrind(const struct convert_job *j, struct buf *out, struct err *e)
{
    return convert_callgrind(j->b, j->p, j->type, out, e);
}

/* A longer extension must come before one that it ends in. */
static const struct convert_format formats[] = {
    {"otlp", {".otlp.pb", ".otlp"}, "one OTLP request in protobuf", false, COMPRESS_NONE, write_otlp},
    {"speedscope", {".speedscope.json", ".speedscope"}, "for speedscope.app", true, COMPRESS_NONE, write_speedscope},
    {"cpuprofile", {".cpuprofile"}, "for Chrome DevTools, one sample type", true, COMPRESS_NONE, write_cpuprofile},
    {"firefox", {".firefox.json"}, "for profiler.firefox.com, one sample type", true, COMPRESS_NONE, write_firefox},
    {"otlp-json", {".otlp.json", ".json", ".jsonl"}, "OTLP in JSON", false, COMPRESS_NONE, write_otlp_json},
    {"folded",
     {".folded", ".collapsed", ".txt"},
     "folded stacks of one sample type",
     true,
     COMPRESS_NONE,
     write_folded},
    {"html", {".html", ".htm"}, "a self-contained HTML flame graph", true, COMPRESS_NONE, write_html},
    {"svg", {".svg"}, "a flame graph as a static picture", true, COMPRESS_NONE, write_svg},
    {"callgrind", {".callgrind", ".callgrind.out"}, "for KCachegrind", true, COMPRESS_NONE, write_callgrind},
    {"pprof",
     {".pprof", ".prof", ".pb"},
     "pprof's profile.proto, compressed with gzip",
     true,
     COMPRESS_GZIP,
     write_pprof},
};

void convert_formats(struct buf *out)
{
    for (size_t i = 0; i < ARRAY_SIZE(formats); i++)
        buf_printf(out, "  %-12s %s (%s)\n", formats[i].name, formats[i].help, formats[i].extensions[0]);
}

static const struct convert_format *format_by_name(struct str name)
{
    for (size_t i = 0; i < ARRAY_SIZE(formats); i++)
        if (str_is(name, formats[i].name))
            return &formats[i];
    return NULL;
}

static const struct convert_format *format_by_path(struct str path)
{
    for (size_t i = 0; i < ARRAY_SIZE(formats); i++)
        for (size_t k = 0; k < ARRAY_SIZE(formats[i].extensions) && formats[i].extensions[k]; k++)
            if (str_ends(path, str_from(formats[i].extensions[k])))
                return &formats[i];
    return NULL;
}

/* Format and compression from the options and the name of the output. */
static int choose_output(const struct convert_options *o, const char *path, const struct convert_format **ret,
                         enum compression *ret_compression, struct err *e)
{
    struct str name = str_from(path);
    bool said = true;

    if (str_ends(name, STR(".gz"))) {
        *ret_compression = COMPRESS_GZIP;
        name.n -= 3;
    } else if (str_ends(name, STR(".zst"))) {
        *ret_compression = COMPRESS_ZSTD;
        name.n -= 4;
    } else {
        said = false;
    }
    *ret = o->to ? format_by_name(str_from(o->to)) : format_by_path(name);
    if (o->to && !*ret)
        return err_set(e, -EINVAL, "--to: unknown format '%s'; wick convert --help lists all formats", o->to);
    if (!*ret)
        return err_set(e, -EINVAL,
                       "cannot tell the output format from the name '%s': end it in .pb.gz (pprof), .otlp, .json, "
                       ".folded, .html, .svg, .speedscope.json, .cpuprofile, .firefox.json or .callgrind%s",
                       path, o->is_command ? ", or add --to FORMAT" : "");
    if (!said)
        *ret_compression = str_ends(name, STR(".pb")) ? COMPRESS_NONE : (*ret)->compression;
    if (o->compress &&
        (strcmp(o->compress, "none") == 0 ? (*ret_compression = COMPRESS_NONE, 0)
                                          : compress_by_name(str_from(o->compress), ret_compression)) < 0)
        return err_set(e, -EINVAL, "--compress: '%s' is not none, gzip or zstd", o->compress);
    return 0;
}

static void print_types(const struct batch *b, const struct profile *p, FILE *out)
{
    for (uint32_t i = 0; i < p->n_types; i++)
        fprintf(out, "%s%.*s", i ? "," : "", STR_FMT(batch_string(b, p->types[i].type)));
}

/* Chooses the profile and type that --type names, or the first one and its default. Reports when others are left
 * out. */
static int choose_profile(struct convert_job *j, struct err *e)
{
    struct str want = str_from(j->o->type);

    for (uint32_t i = 0; i < j->b->n_profiles; i++) {
        const struct profile *p = &j->b->profiles[i];

        for (uint32_t k = 0; k < p->n_types && want.n; k++)
            if (str_eq(batch_string(j->b, p->types[k].type), want)) {
                j->p = p;
                j->type = k;
                return 0;
            }
    }
    if (want.n)
        return err_set(e, -EINVAL, "--type: the profile has no sample type '%s'", j->o->type);
    if (!j->b->n_profiles)
        return err_set(e, -ENODATA, "the input contains no profile");
    j->p = j->b->profiles;
    j->type = j->p->default_type ? j->p->default_type - 1 : j->p->n_types - 1;
    for (uint32_t i = 1; i < j->b->n_profiles; i++) {
        fputs("wick convert: omitted sample types: ", stderr);
        print_types(j->b, &j->b->profiles[i], stderr);
        fputs(" (choose one with --type)\n", stderr);
    }
    return 0;
}

/* For formats of one profile, everything is merged into as few profiles as possible. */
static int prepare(struct convert_job *j, const struct convert_format *f, struct err *e)
{
    struct batch *joined;
    int r;

    if (!f->one_profile)
        return 0;
    r = convert_to_single(j->b, &joined, e);
    if (r < 0)
        return r;
    batch_unref(j->b);
    j->b = joined;
    return choose_profile(j, e);
}

static int write_content(const struct convert_job *j, const struct convert_format *f, enum compression c,
                         const char *out, struct err *e)
{
    _cleanup_(buf_done) struct buf plain = BUF_INIT, packed = BUF_INIT;
    const struct buf *b = c == COMPRESS_NONE ? &plain : &packed;
    int r = f->write(j, &plain, e);

    if (r == 0 && c != COMPRESS_NONE)
        r = compress_deflate(c, 0, plain.p, plain.n, &packed, e);
    return r < 0 ? r : fd_write_file(out, b->p, b->n, e);
}

/* Writes the content of j; its batch may be replaced. */
static int write_job(struct convert_job *j, const struct convert_format *f, enum compression c, const char *out,
                     struct err *e)
{
    int r = prepare(j, f, e);

    return r < 0 ? r : write_content(j, f, c, out, e);
}

int convert_plan(const struct convert_options *o, const char *out, struct convert_plan *ret, struct err *e)
{
    int r = choose_output(o, out, &ret->to, &ret->compression, e);

    if (r < 0)
        return r;
    if (o->from && input_format_parse(str_from(o->from), &ret->from) < 0)
        return err_set(e, -EINVAL, "--from: unknown format '%s'; wick convert --help lists all formats", o->from);
    if (o->base && ret->to->write != write_html)
        return err_set(e, -EINVAL, "--base requires the output format html, not %s", ret->to->name);
    if (o->annotate && ret->to->write != write_folded)
        return err_set(e, -EINVAL, "--annotate requires the output format folded, not %s", ret->to->name);
    return 0;
}

int convert_file(const struct convert_options *o, const struct convert_plan *p, const char *in, const char *out,
                 struct err *e)
{
    struct convert_job j = {.o = o, .in = in};
    int r = local_input_open(in, p->from, &j.b, e);

    if (r == 0)
        r = write_job(&j, p->to, p->compression, out, e);
    batch_unref(j.b);
    return r;
}

/* Standard output without a format option is written as pprof. */
static const struct convert_options *output_options(const char *path)
{
    static const struct convert_options none, pprof = {.to = "pprof"};

    return strcmp(path, "-") == 0 ? &pprof : &none;
}

int convert_output_check(const char *option, const char *path, struct err *e)
{
    enum compression c = COMPRESS_NONE;
    const struct convert_format *f = NULL;
    int r = choose_output(output_options(path), path, &f, &c, e);

    return r < 0 ? err_prefix(e, r, "%s: ", option) : path_check_output(option, path, e);
}

const char *convert_output_format(const char *path)
{
    enum compression c = COMPRESS_NONE;
    const struct convert_format *f = NULL;
    struct err e = {0};

    return choose_output(output_options(path), path, &f, &c, &e) == 0 ? f->name : NULL;
}

bool convert_output_is_pprof(const char *path)
{
    const char *format = convert_output_format(path);

    return format && strcmp(format, "pprof") == 0;
}

/* PATH with the type before its extension: x.off_cpu.pb.gz. */
static void path_of_type(const char *path, const struct convert_format *f, struct str type, char *ret, size_t size)
{
    struct str name = str_from(path), stem = name;

    if (str_ends(stem, STR(".gz")) || str_ends(stem, STR(".zst")))
        stem.n -= str_ends(stem, STR(".gz")) ? 3 : 4;
    for (size_t k = 0; k < ARRAY_SIZE(f->extensions) && f->extensions[k]; k++)
        if (str_ends(stem, str_from(f->extensions[k]))) {
            stem.n -= str_from(f->extensions[k]).n;
            break;
        }
    snprintf(ret, size, "%.*s.%.*s%.*s", STR_FMT(stem), STR_FMT(type), (int) (name.n - stem.n), name.p + stem.n);
}

static int write_together(const struct convert_job *j, const struct convert_format *f, enum compression c,
                          const struct convert_files *files, struct err *e)
{
    int r = write_content(j, f, c, files->path, e);

    if (r == 0 && files->wrote)
        files->wrote(files->ctx, files->path);
    return r;
}

/* Writes each profile into a file of its own: first into the file that is named. */
static int write_each(struct convert_job *j, const struct convert_format *f, enum compression c,
                      const struct convert_files *files, struct err *e)
{
    _cleanup_(batch_unrefp) struct batch *joined = NULL;
    uint32_t first = 0;
    int r = convert_to_single(j->b, &joined, e);

    if (r < 0)
        return r;
    if ((f->write == write_html || f->write == write_svg) && convert_shows_together(joined))
        return write_together(&(struct convert_job){.o = j->o, .in = j->in, .b = joined, .together = true}, f, c, files,
                              e);
    for (uint32_t i = 0; i < joined->n_profiles; i++)
        if (str_is(batch_string(joined, joined->profiles[i].types[joined->profiles[i].n_types - 1].type), files->first))
            first = i;
    for (uint32_t i = 0; r == 0 && i < joined->n_profiles; i++) {
        const struct profile *p = &joined->profiles[i];
        struct str type = batch_string(joined, p->types[p->n_types - 1].type);
        struct convert_options o = *j->o;
        struct convert_job one = {.o = &o, .in = j->in, .b = batch_ref(joined)};
        char path[4200], name[64];

        snprintf(name, sizeof name, "%.*s", STR_FMT(type));
        o.type = name;
        if (i == first)
            snprintf(path, sizeof path, "%s", files->path);
        else
            path_of_type(files->path, f, type, path, sizeof path);
        r = write_job(&one, f, c, path, e);
        batch_unref(one.b);
        if (r == 0 && files->wrote)
            files->wrote(files->ctx, path);
    }
    return r;
}

int convert_output_write(struct batch *b, const char *title, const struct convert_files *files, struct err *e)
{
    const struct convert_options *o = output_options(files->path);
    enum compression c = COMPRESS_NONE;
    const struct convert_format *f = NULL;
    struct convert_job j = {.o = o, .in = title, .b = batch_ref(b)};
    bool to_file = strcmp(files->path, "-") != 0;
    int r = choose_output(o, files->path, &f, &c, e);

    if (r == 0 && f->one_profile && to_file) {
        r = write_each(&j, f, c, files, e);
    } else if (r == 0) {
        r = write_job(&j, f, c, files->path, e);
        if (r == 0 && files->wrote && to_file)
            files->wrote(files->ctx, files->path);
    }
    batch_unref(j.b);
    return r;
}
