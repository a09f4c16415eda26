/* SPDX-License-Identifier: Apache-2.0 */
/* The table of commands and their help texts (pprof_commands.h). The texts are those of pprof: users know them, and the
 * shell's output is compared with pprof's. */
#include "pprof/pprof_commands.h"

#include <stdlib.h>

#include "report/pprof_config.h"

#define TEXT(n, f, d, u, cum, file)                                            \
    {                                                                          \
        n, f, false, POST_NONE, NULL, SHOW_STDOUT, NULL, NULL, d, u, cum, file \
    }
#define ARGUMENT(n, f, d, u, file)                                              \
    {                                                                           \
        n, f, true, POST_NONE, NULL, SHOW_STDOUT, NULL, NULL, d, u, false, file \
    }
#define BINARY(n, f, suffix, d, u)                                                            \
    {                                                                                         \
        n, f, false, POST_NONE, NULL, SHOW_FILE, suffix, NULL, d, u, false, u == USAGE_REPORT \
    }
#define IMAGE(n, d)                                                                         \
    {                                                                                       \
        n, REPORT_DOT, false, POST_DOT, n, SHOW_FILE, n, NULL, d, USAGE_REPORT, false, true \
    }
#define VIEW(n, dot, program, d)                                                                      \
    {                                                                                                 \
        n, REPORT_DOT, false, POST_DOT, dot, SHOW_VIEWER, dot, program, d, USAGE_REPORT, false, false \
    }

static const struct pprof_command commands[] = {
    BINARY("callgrind", REPORT_CALLGRIND, "callgraph.out", "Outputs a graph in callgrind format", USAGE_REPORT),
    TEXT("comments", REPORT_COMMENTS, "Output all profile comments", USAGE_NONE, false, false),
    ARGUMENT("disasm", REPORT_DISASM, "Output assembly listings annotated with samples", USAGE_LIST, true),
    TEXT("dot", REPORT_DOT, "Outputs a graph in DOT format", USAGE_REPORT, false, true),
    VIEW("eog", "svg", "eog", "Visualize graph through eog"),
    VIEW("evince", "pdf", "evince", "Visualize graph through evince"),
    IMAGE("gif", "Outputs a graph image in GIF format"),
    VIEW("gv", "ps", "gv --noantialias", "Visualize graph through gv"),
    {"kcachegrind", REPORT_CALLGRIND, false, POST_NONE, NULL, SHOW_VIEWER, "grind", "kcachegrind",
     "Visualize report in KCachegrind", USAGE_REPORT, false, false},
    ARGUMENT("list", REPORT_LIST, "Output annotated source for functions matching regexp", USAGE_LIST, false),
    IMAGE("pdf", "Outputs a graph in PDF format"),
    ARGUMENT("peek", REPORT_TREE, "Output callers/callees of functions matching regexp", USAGE_PEEK, false),
    IMAGE("png", "Outputs a graph image in PNG format"),
    BINARY("proto", REPORT_PROTO, "pb.gz", "Outputs the profile in compressed protobuf format", USAGE_NONE),
    IMAGE("ps", "Outputs a graph in PS format"),
    TEXT("raw", REPORT_RAW, "Outputs a text representation of the raw profile", USAGE_NONE, false, false),
    {"svg", REPORT_DOT, false, POST_SVG, "svg", SHOW_FILE, "svg", NULL, "Outputs a graph in SVG format", USAGE_REPORT,
     false, true},
    TEXT("tags", REPORT_TAGS, "Outputs all tags in the profile", USAGE_TAGS, false, false),
    TEXT("text", REPORT_TEXT, "Outputs top entries in text form", USAGE_REPORT, true, true),
    TEXT("top", REPORT_TEXT, "Outputs top entries in text form", USAGE_REPORT, true, true),
    BINARY("topproto", REPORT_TOPPROTO, "pb.gz", "Outputs top entries in compressed protobuf format", USAGE_NONE),
    TEXT("traces", REPORT_TRACES, "Outputs all profile samples in text form", USAGE_NONE, false, false),
    TEXT("tree", REPORT_TREE, "Outputs a text rendering of call graph", USAGE_REPORT, true, true),
    {"web", REPORT_DOT, false, POST_SVG, "svg", SHOW_BROWSER, "svg", NULL, "Visualize graph through web browser",
     USAGE_REPORT, false, false},
    {"weblist", REPORT_WEBLIST, true, POST_NONE, NULL, SHOW_BROWSER, "html", NULL,
     "Display annotated source in a web browser", USAGE_LIST, false, false},
};

const struct pprof_command *pprof_commands_all(size_t *ret_n)
{
    *ret_n = ARRAY_SIZE(commands);
    return commands;
}

const struct pprof_command *pprof_command_find(struct str name)
{
    for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
        if (str_is(name, commands[i].name))
            return &commands[i];
    return NULL;
}

void pprof_command_help(const struct pprof_command *c, struct buf *out)
{
    buf_printf(out, "%s\n", c->description);
    if (c->usage != USAGE_NONE)
        buf_puts(out, "  Usage:\n");
    switch (c->usage) {
    case USAGE_NONE:
        break;
    case USAGE_REPORT:
        buf_printf(out, "    %s [n] [focus_regex]* [-ignore_regex]*%s%s\n", c->name, c->usage_cum ? " [-cum]" : "",
                   c->usage_file ? " >f" : "");
        buf_puts(out, "    Include up to n samples\n"
                      "    Include samples matching focus_regex, and exclude ignore_regex.\n");
        if (c->usage_cum)
            buf_puts(out, "    -cum sorts the output by cumulative weight\n");
        break;
    case USAGE_LIST:
        buf_printf(out, "    %s<func_regex|address> [-focus_regex]* [-ignore_regex]*%s\n", c->name,
                   c->usage_file ? " >f" : "");
        buf_puts(out, "    Include functions matching func_regex, or including the address specified.\n"
                      "    Include samples matching focus_regex, and exclude ignore_regex.\n");
        break;
    case USAGE_PEEK:
        buf_puts(out, "    peek func_regex\n    Display callers and callees of functions matching func_regex.\n");
        break;
    case USAGE_TAGS:
        buf_puts(out, "    tags [tag_regex]* [-ignore_regex]* [>file]\n"
                      "    List tags with key:value matching tag_regex and exclude ignore_regex.\n");
        break;
    }
    if (c->usage_file)
        buf_puts(out, "    Optionally save the report on the file f\n");
    buf_putc(out, '\n');
}

/* "    name             first line of the help" */
static void put_item(struct buf *out, const char *indent, const char *dash, const char *name, const char *help)
{
    struct str text = str_from(help ? help : ""), first = str_cut(&text, '\n');
    _cleanup_(buf_done) struct buf full = BUF_INIT;

    buf_printf(&full, "%s%s", dash, name);
    buf_printf(out, "%s    %-16.*s %.*s", indent, STR_FMT(buf_str(&full)), STR_FMT(first));
}

static int compare_fields(const void *a, const void *b)
{
    return strcmp((*(const struct config_field *const *) a)->name, (*(const struct config_field *const *) b)->name);
}

static void put_fields(struct buf *out, const char *dash, bool groups)
{
    size_t n, used = 0;
    const struct config_field *all = config_fields(&n), *sorted[64];

    for (size_t i = 0; i < n; i++)
        if (groups == !!all[i].choices[0])
            sorted[used++] = &all[i];
    qsort(sorted, used, sizeof(*sorted), compare_fields);
    for (size_t i = 0; i < used; i++) {
        if (i)
            buf_putc(out, '\n');
        put_item(out, "", groups ? "" : dash, sorted[i]->name, sorted[i]->help);
        for (size_t k = 0; groups && sorted[i]->choices[k]; k++) {
            buf_putc(out, '\n');
            put_item(out, "  ", dash, sorted[i]->choices[k], config_help(str_from(sorted[i]->choices[k])));
        }
    }
}

void pprof_usage(bool command_line, struct buf *out)
{
    const char *dash = command_line ? "-" : "";

    buf_puts(out, command_line ? "  Output formats (select at most one):\n" : "  Commands:\n");
    for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
        if (i)
            buf_putc(out, '\n');
        put_item(out, "", dash, commands[i].name, commands[i].description);
    }
    if (!command_line) {
        buf_putc(out, '\n');
        put_item(out, "", "", "o/options", "List options and their current values");
        buf_putc(out, '\n');
        put_item(out, "", "", "q/quit/exit/^D", "Exit pprof");
    }
    buf_puts(out, "\n\n  Options:\n");
    put_fields(out, dash, false);
    buf_puts(out, "\n\n  Option groups (only set one per group):\n");
    put_fields(out, dash, true);
}

void pprof_help(struct buf *out)
{
    buf_puts(out, "usage:\n\n"
                  "Produce output in the specified format.\n\n"
                  "   pprof <format> [options] [binary] <source> ...\n\n"
                  "Omit the format to get an interactive shell whose commands can be used\n"
                  "to generate various views of a profile\n\n"
                  "   pprof [options] [binary] <source> ...\n\n"
                  "Omit the format and provide the \"-http\" flag to get an interactive web\n"
                  "interface at the specified host:port that can be used to navigate through\n"
                  "various views of a profile.\n\n"
                  "   pprof -http [host]:[port] [options] [binary] <source> ...\n\n"
                  "Details:\n");
    pprof_usage(true, out);
    buf_puts(out, "\n\n"
                  "  Source options:\n"
                  "    -seconds              Duration for time-based profile collection\n"
                  "    -timeout              Timeout in seconds for profile collection\n"
                  "    -buildid              Override build id for main binary\n"
                  "    -add_comment          Free-form annotation to add to the profile\n"
                  "                          Displayed on some reports or with pprof -comments\n"
                  "    -all_frames           Ignore drop_frames and keep_frames regexps in the profile\n"
                  "                          Rarely needed, mainly used for debugging pprof itself\n"
                  "    -diff_base source     Source of base profile for comparison\n"
                  "    -base source          Source of base profile for profile subtraction\n"
                  "    profile.pb.gz         Profile in compressed protobuf format\n"
                  "    legacy_profile        Profile in legacy pprof format\n"
                  "    http://host/profile   URL for profile handler to retrieve\n"
                  "    -symbolize=           Controls source of symbol information\n"
                  "      none                  Do not attempt symbolization\n"
                  "      local                 Examine only local binaries\n"
                  "      fastlocal             Only get function names from local binaries\n"
                  "      remote                Do not examine local binaries\n"
                  "      force                 Force re-symbolization\n"
                  "    Binary                  Local path or build id of binary for symbolization\n"
                  "    -tls_cert             TLS client certificate file for fetching profile and symbols\n"
                  "    -tls_key              TLS private key file for fetching profile and symbols\n"
                  "    -tls_ca               TLS CA certs file for fetching profile and symbols"
                  "\n\n"
                  "  Misc options:\n"
                  "   -http              Provide web interface at host:port.\n"
                  "                      Host is optional and 'localhost' by default.\n"
                  "                      Port is optional and a randomly available port by default.\n"
                  "   -no_browser        Skip opening a browser for the interactive web UI.\n"
                  "   -tools             Search path for object tools\n"
                  "\n"
                  "  Legacy convenience options:\n"
                  "   -inuse_space           Same as -sample_index=inuse_space\n"
                  "   -inuse_objects         Same as -sample_index=inuse_objects\n"
                  "   -alloc_space           Same as -sample_index=alloc_space\n"
                  "   -alloc_objects         Same as -sample_index=alloc_objects\n"
                  "   -total_delay           Same as -sample_index=delay\n"
                  "   -contentions           Same as -sample_index=contentions\n"
                  "   -mean_delay            Same as -mean -sample_index=delay\n"
                  "\n"
                  "  Environment Variables:\n"
                  "   PPROF_TMPDIR       Location for saved profiles (default $HOME/pprof)\n"
                  "   PPROF_TOOLS        Search path for object-level tools\n"
                  "   PPROF_BINARY_PATH  Search path for local binary files\n"
                  "                      default: $HOME/pprof/binaries\n"
                  "                      searches $buildid/$name, $buildid/*, $path/$buildid,\n"
                  "                      ${buildid:0:2}/${buildid:2}.debug, $name, $path,\n"
                  "                      ${name}.debug, $dir/.debug/${name}.debug,\n"
                  "                      usr/lib/debug/$dir/${name}.debug\n"
                  "   * On Windows, %USERPROFILE% is used instead of $HOME\n");
}
