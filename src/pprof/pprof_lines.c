/* SPDX-License-Identifier: Apache-2.0 */
/* Line input of the shell, with editing, history and completion (pprof_lines.h). */
#include "pprof/pprof_lines.h"

#include <errno.h>
#include <histedit.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "pprof/pprof_commands.h"
#include "report/pprof_config.h"

enum { HISTORY_LINES = 1000, LINE_MAX_BYTES = 1 << 20 };

struct lines {
    const struct prof *p;
    EditLine *edit; /* NULL if stdin is not a terminal */
    History *history;
    HistEvent event;
    struct buf history_path, line, pending;
    size_t taken; /* of pending */
    bool end;
};

static char *prompt(EditLine *e)
{
    static char text[] = "(pprof) ";

    return text;
}

static void consider(struct str candidate, struct str prefix, struct str *found, size_t *n)
{
    if (!str_starts(candidate, prefix))
        return;
    if ((*n)++ == 0) {
        *found = candidate;
        return;
    }
    /* Several matches: completes their common prefix. */
    for (uint32_t i = 0; i < found->n; i++)
        if (i >= candidate.n || candidate.p[i] != found->p[i]) {
            found->n = i;
            return;
        }
}

static struct str complete_word(struct str prefix, size_t *n)
{
    struct str found = {0};
    size_t count, fields;
    const struct pprof_command *c = pprof_commands_all(&count);
    const struct config_field *f = config_fields(&fields);
    static const char *const extra[] = {"help", "options", "quit", "exit"};

    *n = 0;
    for (size_t i = 0; i < count; i++)
        consider(str_from(c[i].name), prefix, &found, n);
    for (size_t i = 0; i < fields; i++) {
        consider(str_from(f[i].name), prefix, &found, n);
        for (size_t k = 0; f[i].choices[k]; k++)
            consider(str_from(f[i].choices[k]), prefix, &found, n);
    }
    for (size_t i = 0; i < ARRAY_SIZE(extra); i++)
        consider(str_from(extra[i]), prefix, &found, n);
    return found;
}

/* The function whose name contains the word, if there is only one. */
static struct str complete_function(const struct prof *p, struct str part, size_t *n)
{
    struct str found = {0};

    *n = 0;
    for (size_t i = 1; i < p->n_functions; i++) {
        struct str name = prof_str(p, p->functions[i].name);

        if (str_find(name, part) < 0 || (*n && str_eq(name, found)))
            continue;
        found = name;
        (*n)++;
    }
    return found;
}

static unsigned char complete(EditLine *e, int ch)
{
    struct lines *l = NULL;
    const LineInfo *info = el_line(e);
    struct str line = {info->buffer, (uint32_t) (info->cursor - info->buffer)}, word, found;
    size_t start = line.n, n;
    bool first;
    char text[512];

    el_get(e, EL_CLIENTDATA, &l);
    while (start && line.p[start - 1] != ' ')
        start--;
    word = str_slice(line, start, line.n);
    first = !start || str_starts(line, STR("help "));
    if (!first && word.n && word.p[0] == '-')
        word = str_slice(word, 1, word.n);
    if (!word.n)
        return CC_ERROR;
    found = first ? complete_word(word, &n) : complete_function(l->p, word, &n);
    if (!n || (!first && n > 1) || found.n >= sizeof(text) - 2)
        return CC_ERROR;
    snprintf(text, sizeof(text), "%.*s%s", STR_FMT(found), n == 1 && !first ? " " : "");
    el_deletestr(e, (int) word.n);
    el_insertstr(e, text);
    return CC_REFRESH;
}

static void find_history(struct buf *out)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");

    if (state && *state)
        buf_printf(out, "%s/wick", state);
    else if (home && *home)
        buf_printf(out, "%s/.local/state/wick", home);
    else
        return;
    if (buf_cstr(out) && fd_mkdir_all(out->p, 0700) >= 0)
        buf_puts(out, "/pprof_history");
    else
        buf_reset(out);
}

static int start_editing(struct lines *l)
{
    l->history = history_init();
    l->edit = el_init("wick", stdin, stderr, stderr);
    if (!l->history || !l->edit)
        return -ENOMEM;
    history(l->history, &l->event, H_SETSIZE, HISTORY_LINES);
    history(l->history, &l->event, H_SETUNIQUE, 1);
    find_history(&l->history_path);
    if (buf_cstr(&l->history_path) && l->history_path.n)
        history(l->history, &l->event, H_LOAD, l->history_path.p);
    el_set(l->edit, EL_PROMPT, prompt);
    el_set(l->edit, EL_EDITOR, "emacs");
    el_set(l->edit, EL_HIST, history, l->history);
    el_set(l->edit, EL_CLIENTDATA, l);
    el_set(l->edit, EL_SIGNAL, 1);
    el_set(l->edit, EL_ADDFN, "complete", "complete a word", complete);
    el_set(l->edit, EL_BIND, "^I", "complete", NULL);
    el_source(l->edit, NULL);
    return 0;
}

int lines_new(const struct prof *p, struct lines **ret)
{
    struct lines *l = mem_zalloc(sizeof(*l));
    const char *term = getenv("TERM");
    int r = 0;

    if (!l)
        return -ENOMEM;
    l->p = p;
    if (isatty(STDIN_FILENO) && term && *term && strcmp(term, "dumb") != 0)
        r = start_editing(l);
    if (r < 0) {
        lines_free(l);
        return r;
    }
    *ret = l;
    return 0;
}

void lines_free(struct lines *l)
{
    if (!l)
        return;
    if (l->history && l->history_path.n && buf_cstr(&l->history_path))
        history(l->history, &l->event, H_SAVE, l->history_path.p);
    if (l->edit)
        el_end(l->edit);
    if (l->history)
        history_end(l->history);
    buf_done(&l->history_path);
    buf_done(&l->line);
    buf_done(&l->pending);
    mem_free(l);
}

static bool edit_line(struct lines *l, struct str *ret)
{
    int n = 0;
    const char *text = el_gets(l->edit, &n);

    if (!text || n <= 0)
        return false;
    *ret = (struct str){text, (uint32_t) n};
    if (str_trim(*ret).n)
        history(l->history, &l->event, H_ENTER, text);
    return true;
}

bool lines_next(struct lines *l, struct str *ret)
{
    if (l->edit)
        return edit_line(l, ret);
    for (;;) {
        struct str rest = str_slice(buf_str(&l->pending), l->taken, l->pending.n);
        ptrdiff_t nl = str_find_char(rest, '\n');
        char *room;
        ssize_t n;

        if (nl >= 0 || (l->end && rest.n)) {
            *ret = str_slice(rest, 0, nl >= 0 ? (size_t) nl : rest.n);
            l->taken += nl >= 0 ? (size_t) nl + 1 : rest.n;
            return true;
        }
        if (l->end || rest.n > LINE_MAX_BYTES)
            return false;
        if (l->taken) {
            memmove(l->pending.p, l->pending.p + l->taken, l->pending.n - l->taken);
            l->pending.n -= l->taken;
            l->taken = 0;
        }
        room = buf_reserve(&l->pending, 4096);
        n = room ? fd_read(STDIN_FILENO, room, 4096) : -ENOMEM;
        if (n > 0)
            l->pending.n += (size_t) n;
        else
            l->end = true;
    }
}
