/* SPDX-License-Identifier: Apache-2.0 */
/* Reads libbpf's warnings (bpf_refused.h). Of a refused program there are two: "prog 'NAME': BPF program load failed: WHY",
 * and "prog 'NAME': -- BEGIN PROG LOAD LOG --", the verifier's log, "-- END PROG LOAD LOG --". */
#include "agent/bpf_refused.h"

#include <bpf/libbpf.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"

enum { LOG_MAX = 32 << 20 };

static struct bpf_refused *collecting;

static void keep(char *to, size_t size, struct str s)
{
    snprintf(to, size, "%.*s", STR_FMT(str_trim(s)));
}

/* The line before the verifier's statistics. */
static void find_reason(struct bpf_refused *c, struct str text)
{
    str_cut(&text, '\n'); /* BEGIN */
    while (text.n) {
        struct str line = str_trim(str_cut(&text, '\n'));

        if (str_starts(line, STR("processed ")) || str_starts(line, STR("verification time")) ||
            str_starts(line, STR("stack depth")) || str_starts(line, STR("-- END PROG LOAD LOG")) || !line.n)
            continue;
        keep(c->reason, sizeof c->reason, line);
    }
}

static void take(struct bpf_refused *c, const char *message)
{
    struct str text = str_from(message), rest = text, program;

    if (!c->first[0])
        keep(c->first, sizeof c->first, str_cut(&rest, '\n'));
    str_cut(&text, '\'');
    program = str_cut(&text, '\'');
    if (!program.n || !str_starts(str_from(message), STR("libbpf: prog '")))
        return;
    if (strstr(message, "BPF program load failed"))
        keep(c->program, sizeof c->program, program);
    else if (strstr(message, "-- BEGIN PROG LOAD LOG") && str_is(program, c->program))
        find_reason(c, text);
}

#pragma GCC diagnostic ignored "-Wformat-nonliteral" /* libbpf has the format */
static int on_message(enum libbpf_print_level level, const char *fmt, va_list ap)
{
    va_list again;
    char *text;
    int n;

    if (level != LIBBPF_WARN || !collecting)
        return 0;
    va_copy(again, ap);
    n = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    text = n < 0 || n > LOG_MAX ? NULL : mem_alloc((size_t) n + 1);
    if (text && vsnprintf(text, (size_t) n + 1, fmt, ap) == n)
        take(collecting, text);
    mem_free(text);
    return 0;
}

void bpf_refused_collect(struct bpf_refused *to)
{
    if (to)
        *to = (struct bpf_refused){0};
    collecting = to;
    libbpf_set_print(on_message);
}
