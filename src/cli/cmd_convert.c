/* SPDX-License-Identifier: Apache-2.0 */
/* wick convert IN OUT: converts any format that wick reads into any that it writes (convert/convert_output.h). */
#include <stdio.h>

#include "cli/command.h"
#include "conf/args.h"
#include "convert/convert_output.h"

struct convert_arguments {
    struct convert_options o;
    bool help;
};

#define AT(field) offsetof(struct convert_arguments, field)
static const struct arg convert_args[] = {
    {0, "to", ARG_STRING, AT(o.to), "otlp|speedscope|cpuprofile|firefox|otlp-json|folded|html|svg|callgrind|pprof",
     "output format (default: by OUT's extension)"},
    {0, "from", ARG_STRING, AT(o.from), "auto|pprof|pprof-legacy|otlp|otlp-json|otlp-framed|folded|perf-script|perf-data|pstats|jfr|cpuprofile|heapprofile|chrome-trace|speedscope|firefox|gprof2dot",
     "input format (default: detected)"},
    {0, "type", ARG_STRING, AT(o.type), "NAME",
     "sample type to write, for formats that hold only one (default: the profile's default)"},
    {0, "compress", ARG_STRING, AT(o.compress), "none|gzip|zstd",
     "compression (default: by OUT's extension .gz or .zst, and gzip for pprof)"},
    {0, "base", ARG_STRING, AT(o.base), "FILE", "html: show the difference to this profile"},
    {0, "annotate", ARG_FLAG, AT(o.annotate), NULL,
     "folded: mark kernel, Java and inlined frames with _[k], _[j], _[i]"},
    {'h', "help", ARG_FLAG, AT(help), NULL, "show this help"},
    {0},
};

static void convert_help(void)
{
    _cleanup_(buf_done) struct buf formats = BUF_INIT;

    args_text("usage: wick convert [options] IN OUT\n\n"
              "Converts a profile to another format. - is standard input or output.\n\nOutput formats:\n",
              stdout);
    convert_formats(&formats);
    args_text(buf_cstr(&formats), stdout);
    putchar('\n');
    args_help(convert_args, stdout);
}

static int convert_run(int argc, char **argv)
{
    struct convert_arguments a = {.o.is_command = true};
    struct convert_plan p = {.from = INPUT_AUTO};
    struct err e = {0};
    int n, r = args_parse(convert_args, &a, argc - 1, argv + 1, &n, &e);

    if (r < 0)
        return command_misused("convert", "%s", e.message);
    if (a.help) {
        convert_help();
        return EXIT_DONE;
    }
    if (n != 2)
        return command_misused("convert", "IN and OUT are required");
    if (convert_plan(&a.o, argv[2], &p, &e) < 0)
        return command_misused("convert", "%s", e.message);
    return command_end("convert", convert_file(&a.o, &p, argv[1], argv[2], &e), &e);
}

const struct command command_convert = {"convert", "convert a profile to another format", convert_run};
