/* SPDX-License-Identifier: Apache-2.0 */
/* Draws `wick top` and reads its keys (top_screen.h). */
#include "record/top_screen.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/printable.h"
#include "base/regex.h"

enum { ESCAPE = 27, CTRL_C = 3, CTRL_Z = 26, BACKSPACE = 127, MARGIN_ROWS = 4 };

static struct termios saved;
static bool is_raw;

/* --- the terminal --- */
static void put(const char *text)
{
    fd_write_all(STDOUT_FILENO, text, strlen(text));
}

bool top_screen_begin(void)
{
    struct termios t;

    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || tcgetattr(STDIN_FILENO, &saved) < 0)
        return false;
    t = saved;
    t.c_lflag &= ~(tcflag_t) (ICANON | ECHO | ISIG);
    if (tcsetattr(STDIN_FILENO, TCSAFLUSH, &t) < 0)
        return false;
    is_raw = true;
    put("\033[?1049h\033[?25l");
    return true;
}

void top_screen_end(void)
{
    if (!is_raw)
        return;
    is_raw = false;
    put("\033[?25h\033[?1049l");
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &saved);
}

void top_screen_done(struct top_screen *s)
{
    regex_free(s->regex);
    s->regex = NULL;
}

/* --- keys --- */
int top_screen_filter(struct top_screen *s, const char *text, struct err *e)
{
    struct regex *regex = NULL;
    int r = *text ? regex_new(str_from(text), &regex, e) : 0;

    if (r < 0)
        return r;
    regex_free(s->regex);
    s->view.filter = s->regex = regex;
    snprintf(s->filter, sizeof s->filter, "%s", text);
    return 0;
}

static void type_filter(struct top_screen *s, char c)
{
    size_t n = strlen(s->typed);
    struct err e = {0};
    int r;

    if (c == ESCAPE || c == CTRL_C) {
        s->typing = false;
    } else if (c == '\n' || c == '\r') {
        r = top_screen_filter(s, s->typed, &e);
        if (r < 0)
            snprintf(s->message, sizeof s->message, "%s", err_message(&e, r));
        s->typing = false;
    } else if (c == BACKSPACE || c == '\b') {
        while (n && ((unsigned char) s->typed[n - 1] & 0xc0) == 0x80)
            n--;
        s->typed[n ? n - 1 : 0] = 0;
    } else if ((unsigned char) c >= ' ' && n + 1 < sizeof s->typed) {
        s->typed[n] = c;
        s->typed[n + 1] = 0;
    }
}

static void take_key(struct top_screen *s, char c)
{
    s->message[0] = 0;
    if (s->help) {
        s->help = false;
        s->quit = c == CTRL_C;
        return;
    }
    switch (c) {
    case 'q':
    case CTRL_C:
        s->quit = true;
        break;
    case 'h':
    case '?':
        s->help = true;
        break;
    case 'p':
    case ' ':
        s->paused = !s->paused;
        break;
    case '/':
        s->typing = true;
        snprintf(s->typed, sizeof s->typed, "%s", s->filter);
        break;
    case 's':
        s->view.cumulative = !s->view.cumulative;
        break;
    case 'f':
        s->view.processes = !s->view.processes;
        break;
    case 't':
        s->view.threads = !s->view.threads;
        break;
    case 'k':
        s->view.no_kernel = !s->view.no_kernel;
        break;
    case CTRL_Z:
        top_screen_end();
        raise(SIGSTOP);
        top_screen_begin();
        break;
    default:
        snprintf(s->message, sizeof s->message, "Press h for help.");
    }
}

bool top_screen_keys(struct top_screen *s, const char *text, size_t n)
{
    if (n > 1 && text[0] == ESCAPE) /* a cursor key and the like */
        return false;
    for (size_t i = 0; i < n && !s->quit; i++) {
        if (s->typing)
            type_filter(s, text[i]);
        else
            take_key(s, text[i]);
    }
    return n > 0;
}

/* --- drawing --- */

/* Appends name in exactly `width` columns: cut off with an ellipsis, or filled up. */
static void put_fitted(struct buf *out, struct str name, int width)
{
    _cleanup_(buf_done) struct buf safe = BUF_INIT;
    size_t end = 0, cut = 0;
    int columns = 0;

    printable_put(&safe, name, false);
    for (; end < safe.n && columns <= width; end++) {
        if (((unsigned char) safe.p[end] & 0xc0) == 0x80)
            continue;
        if (columns == width - 1)
            cut = end;
        if (++columns > width)
            break;
    }
    if (columns > width) {
        buf_put(out, safe.p, cut);
        buf_puts(out, "…");
        return;
    }
    buf_put(out, safe.p ? safe.p : "", safe.n);
    for (; columns < width; columns++)
        buf_putc(out, ' ');
}

static void put_pid(struct buf *out, const struct top_row *r)
{
    char text[32];

    if (r->processes > 1)
        snprintf(text, sizeof text, "(%u)", r->processes);
    else if (r->pid)
        snprintf(text, sizeof text, "%" PRId64, r->pid);
    else
        snprintf(text, sizeof text, "-");
    buf_printf(out, "%8s", text);
}

/* Percent of one CPU, as in top. */
static double percent(int64_t value, int64_t interval_ns)
{
    return 100.0 * (double) value / (double) interval_ns;
}

static void put_rows(const struct top_screen *s, const struct top_rows *t, int64_t interval_ns, size_t n, int columns,
                     struct buf *out)
{
    int thread = s->view.threads ? 16 : 0, service = 15;
    int function = MAX(columns - 8 - 8 - 8 - 2 - service - 1 - (thread ? thread + 1 : 0), 12);

    buf_printf(out, "%8s%8s%8s  ", "PID", s->view.processes ? "CPU%" : "SELF%", s->view.processes ? "HOT%" : "TOTAL%");
    put_fitted(out, s->view.processes ? STR("HOTTEST FUNCTION") : STR("FUNCTION"), function);
    buf_putc(out, ' ');
    if (thread) {
        put_fitted(out, STR("THREAD"), thread);
        buf_putc(out, ' ');
    }
    buf_puts(out, "SERVICE\n");
    for (size_t i = 0; i < MIN(n, t->n); i++) {
        const struct top_row *r = &t->v[i];

        put_pid(out, r);
        buf_printf(out, "%8.1f%8.1f  ", percent(s->view.processes ? r->total : r->self, interval_ns),
                   percent(s->view.processes ? r->self : r->total, interval_ns));
        put_fitted(out, r->function, function);
        buf_putc(out, ' ');
        if (thread) {
            put_fitted(out, r->thread, thread);
            buf_putc(out, ' ');
        }
        put_fitted(out, r->service, service);
        while (out->n && out->p[out->n - 1] == ' ')
            out->n--;
        buf_putc(out, '\n');
    }
    if (!t->n)
        buf_puts(out, t->sum ? "  No function matches the filter.\n" : "  No samples in this interval.\n");
}

static void put_help(struct buf *out)
{
    buf_puts(out, "  q  quit\n"
                  "  p  pause or go on (also the space bar)\n"
                  "  /  show only functions, services or threads that match a regular expression\n"
                  "  s  sort by a function's own time (SELF%) or including what it calls (TOTAL%)\n"
                  "  f  rows are functions or processes\n"
                  "  t  separate threads by name\n"
                  "  k  hide kernel functions: their time counts for the functions that called them\n"
                  "  h  this help\n\n"
                  "  Percentages are of one CPU. (3) as PID: the row is the sum of three processes.\n\n"
                  "  Press any key to go back.\n");
}

/* The second line: what changes the view from its default. */
static void put_state(const struct top_screen *s, struct buf *out)
{
    if (s->typing)
        buf_printf(out, "/%s_", s->typed);
    else if (s->message[0])
        buf_puts(out, s->message);
    else if (s->paused || s->filter[0] || s->view.no_kernel)
        buf_printf(out, "%s%s%s%s%s", s->paused ? "Paused. " : "", s->filter[0] ? "Filter: /" : "", s->filter,
                   s->filter[0] ? "/. " : "", s->view.no_kernel ? "Kernel functions are hidden." : "");
    buf_putc(out, '\n');
}

void top_screen_text(const struct top_screen *s, const struct top_rows *t, const struct top_status *status, int rows,
                     int columns, struct buf *out)
{
    _cleanup_(buf_done) struct buf head = BUF_INIT;

    buf_printf(&head, "wick top: %.2f cores busy; %s", (double) t->sum / (double) status->interval_ns, status->line);
    put_fitted(out, buf_str(&head), columns);
    while (out->n && out->p[out->n - 1] == ' ')
        out->n--;
    buf_putc(out, '\n');
    put_state(s, out);
    if (s->help)
        put_help(out);
    else
        put_rows(s, t, status->interval_ns, (size_t) rows, columns, out);
}

int top_screen_draw(const struct top_screen *s, const struct top_rows *t, const struct top_status *status)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT, out = BUF_INIT;
    struct winsize w = {.ws_row = 24, .ws_col = 80};
    struct str rest, line;

    ioctl(STDOUT_FILENO, TIOCGWINSZ, &w);
    top_screen_text(s, t, status, MAX(w.ws_row - MARGIN_ROWS, 1), w.ws_col ? w.ws_col : 80, &text);
    rest = buf_str(&text);
    buf_puts(&out, "\033[H");
    while (rest.n) { /* each line overwrites what was there, which does not flicker as clearing first would */
        line = str_cut(&rest, '\n');
        buf_printf(&out, "%.*s\033[K%s", STR_FMT(line), rest.n ? "\n" : "");
    }
    buf_puts(&out, "\033[J");
    return buf_error(&out) ? buf_error(&out) : fd_write_all(STDOUT_FILENO, out.p, out.n);
}
