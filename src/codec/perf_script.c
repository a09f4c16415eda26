/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the output of `perf script` (perf_script.h). Lines are read into a header and its frames; the stack of a
 * complete sample goes into the builder's dictionary at once, its counts into the sums of its event.
 */
#include "codec/perf_script.h"

#include <ctype.h>
#include <errno.h>

#include "base/clock.h"
#include "base/mem.h"
#include "codec/sample_sum.h"
#include "model/builder.h"
#include "model/semconv.h"

enum { FRAMES_MAX = 65536, EVENTS_MAX = 256 };

struct perf_header {
    struct str comm, event;
    int64_t pid, tid, cpu; /* -1 = not given */
    int64_t period;        /* -1 = not given */
    int64_t time;          /* nanoseconds since the machine started; 0 = not given */
    struct str rest;       /* the text after the event */
};

struct perf_frame_line {
    uint64_t address;
    struct str symbol, dso, file;
    int64_t line;
    bool inlined;
};

struct event {
    struct str name;
    bool has_period, one_period;
    int64_t period; /* period of the first sample */
};

struct perf_reader {
    struct builder *b;
    struct perf_header header;
    bool open; /* a header was read, and its sample is not yet added */
    struct perf_frame_line *frames;
    size_t n_frames, cap_frames;
    struct line *lines;
    uint32_t *stack;
    size_t cap_lines, cap_stack;
    struct event events[EVENTS_MAX];
    uint32_t n_events;
    struct sample_sum sum; /* profiles are events */
};

/* --- one line --- */

static struct str next_word(struct str *s)
{
    uint32_t i = 0, k;
    struct str word;

    while (i < s->n && isspace((unsigned char) s->p[i]))
        i++;
    for (k = i; k < s->n && !isspace((unsigned char) s->p[k]); k++)
        ;
    word = str_slice(*s, i, k);

    *s = str_slice(*s, k, s->n);
    return word;
}

static bool all_digits(struct str s)
{
    for (uint32_t i = 0; i < s.n; i++)
        if (!isdigit((unsigned char) s.p[i]))
            return false;
    return s.n > 0;
}

/* "123.456:" */
static bool is_time(struct str s)
{
    ptrdiff_t dot = str_find_char(s, '.');

    return dot > 0 && s.p[s.n - 1] == ':' && all_digits(str_slice(s, 0, (size_t) dot)) &&
           all_digits(str_slice(s, (size_t) dot + 1, s.n - 1));
}

/* "123.456789:" as nanoseconds */
static int64_t parse_time(struct str s)
{
    struct str seconds = str_cut(&s, '.');
    int64_t whole, part, unit = NS_PER_S;

    s.n--;
    if (s.n > 9 || str_to_i64(seconds, 10, &whole) < 0 || str_to_i64(s, 10, &part) < 0 ||
        whole > INT64_MAX / NS_PER_S - 1)
        return 0;
    for (uint32_t i = 0; i < s.n; i++)
        unit /= 10;
    return whole * NS_PER_S + part * unit;
}

/* "[003]" */
static bool is_cpu(struct str s)
{
    return s.n > 2 && s.p[0] == '[' && s.p[s.n - 1] == ']' && all_digits(str_slice(s, 1, s.n - 1));
}

/* "12" or "12/34" */
static bool parse_pid(struct str s, struct perf_header *h)
{
    ptrdiff_t slash = str_find_char(s, '/');

    h->pid = -1;
    if (slash < 0)
        return str_to_i64(s, 10, &h->tid) == 0 && h->tid >= 0;
    return str_to_i64(str_slice(s, 0, (size_t) slash), 10, &h->pid) == 0 && h->pid >= 0 &&
           str_to_i64(str_slice(s, (size_t) slash + 1, s.n), 10, &h->tid) == 0 && h->tid >= 0;
}

/* Drops modifiers: cycles:ppp -> cycles, but sched:sched_switch stays. */
static struct str event_name(struct str s)
{
    for (uint32_t i = s.n; i > 0; i--) {
        if (s.p[i - 1] == ':')
            return str_slice(s, 0, i - 1);
        if (!strchr("ukhHpPGSDIWeb", s.p[i - 1]))
            break;
    }
    return s;
}

/* Parses the text after the pid: [CPU] TIME: PERIOD EVENT: rest. With `bare`, nothing may follow the pid. */
static bool parse_tail(struct str s, bool bare, struct perf_header *h)
{
    struct str word = next_word(&s);
    bool any = bare;

    h->cpu = h->period = -1;
    h->time = 0;
    h->event = h->rest = (struct str){0};
    if (is_cpu(word)) {
        str_to_i64(str_slice(word, 1, word.n - 1), 10, &h->cpu);
        word = next_word(&s);
        any = true;
    }
    if (is_time(word)) {
        h->time = parse_time(word);
        word = next_word(&s);
        any = true;
    }
    if (all_digits(word)) {
        if (str_to_i64(word, 10, &h->period) < 0)
            return false;
        word = next_word(&s);
    }
    if (word.n > 1 && word.p[word.n - 1] == ':') {
        h->event = event_name(str_slice(word, 0, word.n - 1));
        h->rest = str_trim(s);
        return true;
    }
    return any && !word.n;
}

/* The command may contain spaces: the pid is the first number after which the rest of the line can be parsed. */
static bool parse_header(struct str line, bool bare, struct perf_header *h)
{
    struct str s = line;
    struct str word = next_word(&s);

    while (word.n) {
        word = next_word(&s);
        if (word.n && parse_pid(word, h) && parse_tail(s, bare, h)) {
            h->comm = str_trim(str_slice(line, 0, (size_t) (word.p - line.p)));
            return h->comm.n > 0;
        }
    }
    return false;
}

static bool parse_frame(struct str line, struct perf_frame_line *f)
{
    struct str rest = str_trim(line);
    struct str word = next_word(&rest);
    ptrdiff_t plus = -1;

    *f = (struct perf_frame_line){0};
    if (!word.n || str_to_u64(word, 16, &f->address) < 0)
        return false;
    rest = str_trim(rest);
    if (rest.n && rest.p[rest.n - 1] == ')') { /* the last "(...)" with a space before it, nested ones inside */
        int depth = 0;

        for (uint32_t i = rest.n; i > 0; i--) {
            depth += rest.p[i - 1] == ')' ? 1 : rest.p[i - 1] == '(' ? -1 : 0;
            if (depth == 0 && (i == 1 || rest.p[i - 2] == ' ')) {
                f->dso = str_slice(rest, i, rest.n - 1);
                rest = str_trim(str_slice(rest, 0, i - 1));
                break;
            }
        }
    }
    for (uint32_t i = 0; i + 2 < rest.n; i++)
        if (rest.p[i] == '+' && rest.p[i + 1] == '0' && rest.p[i + 2] == 'x')
            plus = i;
    f->symbol = plus > 0 ? str_slice(rest, 0, (size_t) plus) : rest;
    f->inlined = str_is(f->dso, "inlined");
    if (f->inlined)
        f->dso = (struct str){0};
    if (str_is(f->symbol, "[unknown]"))
        f->symbol = (struct str){0};
    if (str_is(f->dso, "[unknown]"))
        f->dso = (struct str){0};
    return true;
}

/* FILE:LINE belongs to the previous frame. */
static void parse_source(struct str line, struct perf_frame_line *f)
{
    struct str s = str_trim(line);

    for (uint32_t i = s.n; i > 1; i--)
        if (s.p[i - 1] == ':') {
            if (str_to_i64(str_slice(s, i, s.n), 10, &f->line) == 0)
                f->file = str_slice(s, 0, i - 1);
            return;
        }
}

/* --- one sample --- */

static bool is_kernel(struct str dso)
{
    return str_starts(dso, STR("[kernel")) || str_starts(dso, STR("[guest.kernel")) || str_ends(dso, STR(".ko")) ||
           (dso.n && dso.p[0] == '[' && !str_starts(dso, STR("[v")) && !str_is(dso, "[heap]") &&
            !str_is(dso, "[stack]"));
}

/* Turns frames into locations, inlined ones into lines of the frame they are in. */
static int build_stack(struct perf_reader *r, uint32_t *ret_n)
{
    uint32_t kernel = builder_attr_str(r->b, STR(SEMCONV_FRAME_TYPE), STR("kernel")), n = 0, n_lines = 0;
    int rc = array_reserve(r->lines, r->cap_lines, r->n_frames, FRAMES_MAX);

    if (rc == 0)
        rc = array_reserve(r->stack, r->cap_stack, r->n_frames, FRAMES_MAX);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < r->n_frames; i++) {
        const struct perf_frame_line *f = &r->frames[i];
        uint32_t mapping = 0;

        if (f->symbol.n) {
            uint32_t name = builder_string(r->b, f->symbol);

            r->lines[n_lines++] = (struct line){
                .function = builder_function(
                    r->b,
                    &(struct function){.name = name, .system_name = name, .filename = builder_string(r->b, f->file)}),
                .line = f->line,
            };
        }
        if (f->inlined && i + 1 < r->n_frames)
            continue;
        if (f->dso.n)
            mapping = builder_mapping(r->b, &(struct mapping){.filename = builder_string(r->b, f->dso)}, NULL, 0);
        r->stack[n++] = builder_location(r->b, &(struct builder_location){.mapping = mapping,
                                                                          .address = f->address,
                                                                          .lines = r->lines,
                                                                          .n_lines = n_lines,
                                                                          .attrs = &kernel,
                                                                          .n_attrs = is_kernel(f->dso) ? 1 : 0});
        n_lines = 0;
    }
    *ret_n = n;
    return 0;
}

static struct run build_attrs(struct perf_reader *r)
{
    const struct perf_header *h = &r->header;
    uint32_t attrs[4], n = 0;

    attrs[n++] = builder_attr_str(r->b, STR(SEMCONV_THREAD_NAME), h->comm);
    if (h->pid >= 0)
        attrs[n++] = builder_attr_int(r->b, STR(SEMCONV_PROCESS_PID), h->pid, (struct str){0});
    attrs[n++] = builder_attr_int(r->b, STR(SEMCONV_THREAD_ID), h->tid, (struct str){0});
    if (h->cpu >= 0)
        attrs[n++] = builder_attr_int(r->b, STR("cpu.logical_number"), h->cpu, (struct str){0});
    return builder_attrs(r->b, attrs, n);
}

static int find_event(struct perf_reader *r, const struct perf_header *h, uint32_t *ret, struct err *e)
{
    struct event *v;

    for (*ret = 0; *ret < r->n_events; (*ret)++)
        if (str_eq(r->events[*ret].name, h->event))
            break;
    v = &r->events[*ret];
    if (*ret == r->n_events) {
        if (r->n_events == EVENTS_MAX)
            return err_set(e, -E2BIG, "perf script: more than %d events", EVENTS_MAX);
        r->n_events++;
        *v = (struct event){.name = h->event, .one_period = true, .period = h->period};
    }
    v->has_period |= h->period >= 0;
    v->one_period &= h->period == v->period;
    return 0;
}

static int end_sample(struct perf_reader *r, struct err *e)
{
    struct sum_row row = {.values = {1, r->header.period >= 0 ? r->header.period : 1}, .time = r->header.time};
    uint32_t n = 0;
    int rc;

    if (!r->open)
        return 0;
    r->open = false;
    rc = find_event(r, &r->header, &row.profile, e);
    if (rc == 0)
        rc = build_stack(r, &n);
    if (rc < 0)
        return rc;
    row.stack = builder_stack(r->b, r->stack, n);
    row.attrs = build_attrs(r);
    rc = builder_error(r->b);
    return rc < 0 ? rc : sample_sum_add(&r->sum, &row);
}

/* --- the whole text --- */

static int add_frame(struct perf_reader *r, const struct perf_frame_line *f)
{
    int rc = array_push(r->frames, r->n_frames, r->cap_frames, FRAMES_MAX, *f);

    return rc;
}

static int begin_sample(struct perf_reader *r, const struct perf_header *h, struct err *e)
{
    struct perf_frame_line f;
    int rc = end_sample(r, e);

    if (rc < 0)
        return rc;
    r->header = *h;
    r->open = true;
    r->n_frames = 0;
    return h->rest.n && parse_frame(h->rest, &f) && (f.symbol.n || f.dso.n) ? add_frame(r, &f) : 0;
}

static int read_line(struct perf_reader *r, struct str line, unsigned long number, struct err *e)
{
    struct perf_frame_line f;
    struct perf_header h;

    if (line.n && line.p[0] == '#')
        return 0;
    if (!str_trim(line).n)
        return end_sample(r, e);
    if (parse_header(line, !isspace((unsigned char) line.p[0]), &h))
        return begin_sample(r, &h, e);
    if (isspace((unsigned char) line.p[0]) && r->open) {
        if (parse_frame(line, &f))
            return add_frame(r, &f);
        if (r->n_frames) { /* FILE:LINE, or another detail of the frame: "module[address]" where there is no source */
            parse_source(line, &r->frames[r->n_frames - 1]);
            return 0;
        }
    }
    return err_set(e, -EINVAL, "perf script: line %lu is neither a sample nor a frame: %.*s", number,
                   (int) MIN(line.n, 100u), line.p);
}

static int write_profile(struct perf_reader *r, uint32_t event)
{
    const struct event *v = &r->events[event];
    bool clock = str_is(v->name, "cpu-clock") || str_is(v->name, "task-clock");
    struct value_type types[2];
    struct profile as = {.types = types, .n_types = v->has_period ? 2 : 1};
    bool trace = str_find_char(v->name, ':') >= 0;

    types[0] = (struct value_type){builder_string(r->b, trace && !v->has_period ? v->name : STR("samples")),
                                   builder_string(r->b, STR("count"))};
    types[1] = (struct value_type){builder_string(r->b, clock ? STR("cpu") : v->name),
                                   builder_string(r->b, clock ? STR("nanoseconds") : STR("count"))};
    if (v->has_period && v->one_period) {
        as.period_type = types[1];
        as.period = v->period;
    }
    return sample_sum_write(&r->sum, event, &as, 1, r->b);
}

static int read_lines(struct perf_reader *r, struct str text, struct err *e)
{
    int rc = 0;

    for (unsigned long number = 1; text.n && rc == 0; number++) {
        struct str line = str_cut(&text, '\n');

        if (line.n && line.p[line.n - 1] == '\r')
            line.n--;
        rc = read_line(r, line, number, e);
    }
    if (rc == 0)
        rc = end_sample(r, e);
    if (rc < 0)
        return rc;
    if (!r->sum.n)
        return err_set(e, -EINVAL, "perf script: no samples");
    for (uint32_t i = 0; rc == 0 && i < r->n_events; i++)
        rc = write_profile(r, i);
    return rc;
}

bool perf_script_probe(struct str text)
{
    struct perf_frame_line f;
    struct perf_header h;

    while (text.n) {
        struct str line = str_cut(&text, '\n');

        if (!str_trim(line).n || line.p[0] == '#')
            continue;
        if (parse_header(line, false, &h))
            return true;
        /* "COMM PID" alone could be a folded stack: the next line decides. */
        return parse_header(line, true, &h) && text.n && isspace((unsigned char) text.p[0]) &&
               parse_frame(str_cut(&text, '\n'), &f);
    }
    return false;
}

int perf_script_decode(struct str text, size_t memory, bool times, struct batch **ret, struct err *e)
{
    struct perf_reader *r = mem_zalloc(sizeof *r);
    int rc = r ? builder_new(&(struct builder_limits){.memory = memory}, &r->b) : -ENOMEM;

    if (rc == 0) {
        r->sum.times = times;
        r->sum.limit = sample_sum_limit(memory);
        builder_resource(r->b);
        builder_scope(r->b, (struct str){0}, (struct str){0});
        rc = read_lines(r, text, e);
    }
    if (rc == 0)
        rc = builder_finish(r->b, ret, e);
    if (r) {
        builder_free(r->b);
        mem_free(r->frames);
        mem_free(r->lines);
        mem_free(r->stack);
        sample_sum_done(&r->sum);
    }
    mem_free(r);
    return rc;
}
