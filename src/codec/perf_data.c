/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads perf.data (perf_data.h). Numbers are little-endian.
 *
 *   header   "PERFILE2", size u64, size of an attr u64, then sections (offset u64, size u64): attrs, data, event types;
 *            256 bits of features, whose sections follow the data, in the order of their bits
 *   attr     struct perf_event_attr, then the section of its ids
 *   data     records: type u32, misc u16, size u16, and fields by type; samples by the attr's sample_type
 *
 * Records are in the order of the buffers, not of time: a first pass collects mappings, names and forks with their times,
 * a second one the samples.
 */
#include "codec/perf_data.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/utsname.h>

#include "base/bytes.h"
#include "base/map.h"
#include "base/mem.h"
#include "codec/perf_sample.h"
#include "codec/sample_sum.h"
#include "model/builder.h"
#include "model/semconv.h"

enum { EVENTS_MAX = 64, FRAMES_MAX = 4096, PARENTS_MAX = 16, STEPS_PER_BYTE = 64, BUILD_ID_BYTES = 20 };
enum { FEATURE_BUILD_ID = 2, FEATURE_ARCH = 6, FEATURE_EVENT_DESC = 12, FEATURE_BITS = 256 };
enum {
    RECORD_MMAP = 1,
    RECORD_COMM = 3,
    RECORD_FORK = 7,
    RECORD_SAMPLE = 9,
    RECORD_MMAP2 = 10,
    RECORD_AUXTRACE = 71,
    RECORD_COMPRESSED = 81,
    RECORD_COMPRESSED2 = 83
};
enum { PROT_EXECUTE = 4, MISC_MMAP_BUILD_ID = 1 << 14, MISC_CPUMODE = 7, CPUMODE_KERNEL = 1, ATTR_SAMPLE_ID_ALL = 18 };

#define CONTEXT_KERNEL ((uint64_t) -128)
#define CONTEXT_USER ((uint64_t) -512)
#define CONTEXT_FIRST ((uint64_t) -4095)

struct perf_mmap {
    int64_t pid; /* -1 = the kernel's */
    uint64_t time, addr, len, pgoff;
    uint32_t file, build_id; /* string and attribute of the builder; build_id 0 = none */
    uint32_t mapping;        /* the builder's, once a frame is in it; 0 = not yet */
};

struct perf_name {
    int64_t pid, tid;
    uint64_t time;
    uint32_t attr; /* thread.name; of a fork: the parent's pid */
};

struct perf_data {
    struct str data;
    size_t memory, begin, end;
    uint64_t steps;
    struct builder *b;
    struct perf_unwinder *unwinder; /* NULL: copied stacks are refused */
    struct sample_sum sum;
    struct perf_attr attrs[EVENTS_MAX];
    uint32_t n_attrs;
    struct perf_mmap *maps;
    struct perf_name *comms, *forks;
    size_t n_maps, cap_maps, n_comms, cap_comms, n_forks, cap_forks;
    uint32_t types[2];  /* profile.frame.type: native, kernel */
    uint32_t truncated; /* a location that says that the rest of the stack is not known; 0 = none yet */
    uint64_t addresses[PERF_STACK_FRAMES];
    uint32_t stack[FRAMES_MAX];
};

struct perf_record {
    uint32_t type;
    uint16_t misc;
    struct cursor c; /* after the header */
};

static struct cursor section(const struct perf_data *p, uint64_t at, uint64_t size)
{
    struct cursor c = cursor_of(p->data.p, p->data.n);

    if (at > p->data.n || size > p->data.n - at) {
        cursor_fail(&c);
        return c;
    }
    return cursor_of(p->data.p + at, size);
}

static size_t limit_of(const struct perf_data *p, size_t size)
{
    return p->memory ? p->memory / size + 1 : UINT32_MAX;
}

static bool next_record(struct perf_data *p, size_t *at, struct perf_record *ret)
{
    const char *h = p->data.p + *at;
    uint16_t size;

    if (p->end - *at < 8)
        return false;
    size = load_u16(h + 6);
    if (size < 8 || size > p->end - *at)
        return false;
    *ret = (struct perf_record){load_u32(h), load_u16(h + 4), cursor_of(h + 8, size - 8u)};
    *at += size;
    return true;
}

/* A text that ends at a NUL, or with the record. */
static struct str text_of(struct cursor *c)
{
    const unsigned char *end = c->p < c->end ? memchr(c->p, 0, (size_t) (c->end - c->p)) : NULL;

    return (struct str){(const char *) c->p, (uint32_t) ((end ? end : c->end) - c->p)};
}

/* The time of a record other than a sample, from the fields that sample_id_all puts at its end. */
static uint64_t record_time(const struct perf_data *p, const struct cursor *c)
{
    const struct perf_attr *a = &p->attrs[0];
    size_t after = 8;

    if (!a->id_all || !(a->sample_type & SAMPLE_TIME))
        return 0;
    after += a->sample_type & SAMPLE_ID ? 8 : 0;
    after += a->sample_type & SAMPLE_STREAM ? 8 : 0;
    after += a->sample_type & SAMPLE_CPU ? 8 : 0;
    after += a->sample_type & SAMPLE_IDENTIFIER ? 8 : 0;
    return (size_t) (c->end - c->p) >= after ? load_u64(c->end - after) : 0;
}

/* --- the header --- */

static int read_attrs(struct perf_data *p, struct cursor c, uint64_t attr_size, struct err *e)
{
    if (attr_size < 64 + 16 || attr_size > 4096 || c.bad)
        return err_set(e, -EINVAL, "perf.data: the attributes are damaged");
    while ((uint64_t) (c.end - c.p) >= attr_size) {
        const unsigned char *h = get_raw(&c, attr_size);
        uint64_t flags = load_u64(h + 40), at = load_u64(h + attr_size - 16), size = load_u64(h + attr_size - 8);
        struct perf_attr *a = &p->attrs[p->n_attrs];

        if (p->n_attrs++ == EVENTS_MAX)
            return err_set(e, -E2BIG, "perf.data: more than %d events", EVENTS_MAX);
        *a = (struct perf_attr){.sample_type = load_u64(h + 24),
                                .read_format = load_u64(h + 32),
                                .period = load_u64(h + 16),
                                .branch_type = attr_size >= 96 ? load_u64(h + 72) : 0,
                                .regs = attr_size >= 104 ? load_u64(h + 80) : 0,
                                .id_all = flags >> ATTR_SAMPLE_ID_ALL & 1,
                                .freq = flags >> 10 & 1};
        perf_attr_default_name(a, load_u32(h), load_u64(h + 8));
        if (!section(p, at, size).bad) {
            a->ids_at = (size_t) at;
            a->n_ids = (size_t) size / 8;
        }
    }
    return p->n_attrs ? 0 : err_set(e, -EINVAL, "perf.data: no events");
}

/* EVENT_DESC: events in the order of the attrs, with their names; modifiers (cycles:u) are cut off. */
static void read_event_names(struct perf_data *p, struct cursor c)
{
    uint32_t n = get_u32(&c), size = get_u32(&c);

    for (uint32_t i = 0; i < n && i < p->n_attrs && !c.bad; i++) {
        uint32_t n_ids, len;
        struct cursor text;
        struct str name;

        get_raw(&c, size);
        n_ids = get_u32(&c);
        len = get_u32(&c);
        text = cursor_of(c.p, MIN((size_t) len, (size_t) (c.end - c.p)));
        get_raw(&c, len);
        get_raw(&c, (size_t) n_ids * 8);
        name = text_of(&text);
        for (uint32_t k = name.n; k > 1 && strchr("ukhHpPGSDIWeb", name.p[k - 1]); k--)
            if (name.p[k - 2] == ':')
                name.n = k - 2;
        if (!c.bad && name.n)
            snprintf(p->attrs[i].name, sizeof p->attrs[i].name, "%.*s", (int) MIN(name.n, 60u), name.p);
    }
}

/* The size of a build id that is filled up with zeros: SHA-1, MD5 or 8 bytes. A byte of an id may be zero, too. */
static size_t build_id_size(const unsigned char *id)
{
    static const unsigned char zeros[BUILD_ID_BYTES];
    size_t n = BUILD_ID_BYTES;

    for (size_t less = 16; less >= 8 && memcmp(id + less, zeros, BUILD_ID_BYTES - less) == 0; less -= 8)
        n = less;
    return n;
}

static uint32_t build_id_attr(struct perf_data *p, const unsigned char *id, size_t n)
{
    char hex[2 * BUILD_ID_BYTES];

    hex_write(hex, id, n);
    return builder_attr_str(p->b, STR(SEMCONV_BUILD_ID_GNU), (struct str){hex, (uint32_t) (2 * n)});
}

/* The table of build ids: i32 pid, 20 bytes and their number, the file. It is read for each mapping without one. */
static uint32_t find_build_id(struct perf_data *p, struct cursor table, struct str file)
{
    while (table.end - table.p >= 8 + 4 + 24) {
        uint16_t misc = load_u16(table.p + 4), size = load_u16(table.p + 6);
        const unsigned char *h = size >= 36 ? get_raw(&table, size) : NULL;
        struct cursor name;
        size_t n;

        if (!h || !p->steps)
            return 0;
        p->steps -= MIN(p->steps, (uint64_t) 8);
        name = cursor_of(h + 36, size - 36u);
        n = misc >> 15 && h[32] <= BUILD_ID_BYTES ? h[32] : build_id_size(h + 12);
        if (str_eq(text_of(&name), file) && n)
            return build_id_attr(p, h + 12, n);
    }
    return 0;
}

/* --- mappings, names, forks --- */

static int add_map(struct perf_data *p, const struct perf_record *r, struct cursor ids)
{
    struct cursor c = r->c;
    uint32_t pid = get_u32(&c), attr = 0;
    struct perf_mmap m = {.pid = pid == UINT32_MAX ? -1 : (int64_t) pid, .time = record_time(p, &r->c)};
    const unsigned char *raw = NULL;
    bool is_code = false;
    char id[PERF_ID_MAX];
    struct str file;

    get_u32(&c);
    m.addr = get_u64(&c);
    m.len = get_u64(&c);
    m.pgoff = get_u64(&c);
    if (r->type == RECORD_MMAP2) {
        raw = get_raw(&c, 24);
        is_code = get_u64(&c) & PROT_EXECUTE; /* prot, flags */
    }
    file = text_of(&c);
    if (c.bad || m.len > UINT64_MAX - m.addr)
        return 0;
    if (raw && r->misc & MISC_MMAP_BUILD_ID && raw[0] && raw[0] <= BUILD_ID_BYTES)
        attr = build_id_attr(p, raw + 4, raw[0]);
    if (m.pid < 0 && str_starts(file, STR("[kernel.kallsyms]")))
        file = STR("[kernel.kallsyms]");
    if (!attr)
        attr = find_build_id(p, ids, file);
    if (!attr && is_code && !(r->misc & MISC_MMAP_BUILD_ID) && perf_identify(p->unwinder, file, raw, id))
        attr = builder_attr_str(p->b, STR(SEMCONV_BUILD_ID_GNU), str_from(id));
    m.file = builder_string(p->b, file);
    m.build_id = attr;
    return array_push(p->maps, p->n_maps, p->cap_maps, limit_of(p, sizeof m), m);
}

static int add_comm(struct perf_data *p, const struct perf_record *r)
{
    struct cursor c = r->c;
    struct perf_name n = {.time = record_time(p, &r->c)};
    struct str text;

    n.pid = get_u32(&c);
    n.tid = get_u32(&c);
    text = text_of(&c);
    if (c.bad || !text.n)
        return 0;
    n.attr = builder_attr_str(p->b, STR(SEMCONV_THREAD_NAME), text);
    return array_push(p->comms, p->n_comms, p->cap_comms, limit_of(p, sizeof n), n);
}

static int add_fork(struct perf_data *p, const struct perf_record *r)
{
    struct cursor c = r->c;
    struct perf_name n = {0};

    n.pid = get_u32(&c);
    n.attr = get_u32(&c);
    n.tid = get_u32(&c);
    get_u32(&c);
    n.time = get_u64(&c);
    if (c.bad)
        return 0;
    return array_push(p->forks, p->n_forks, p->cap_forks, limit_of(p, sizeof n), n);
}

static int by_pid_time(const void *a, const void *b)
{
    const struct perf_mmap *x = a, *y = b;

    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    return x->time < y->time ? -1 : x->time > y->time;
}

static int by_tid_time(const void *a, const void *b)
{
    const struct perf_name *x = a, *y = b;

    if (x->tid != y->tid)
        return x->tid < y->tid ? -1 : 1;
    return x->time < y->time ? -1 : x->time > y->time;
}

static int first_pass(struct perf_data *p, struct cursor ids, struct err *e)
{
    struct perf_record r;
    int rc = 0;

    for (size_t at = p->begin; rc == 0 && next_record(p, &at, &r);) {
        switch (r.type) {
        case RECORD_MMAP:
        case RECORD_MMAP2:
            rc = add_map(p, &r, ids);
            break;
        case RECORD_COMM:
            rc = add_comm(p, &r);
            break;
        case RECORD_FORK:
            rc = add_fork(p, &r);
            break;
        case RECORD_COMPRESSED:
        case RECORD_COMPRESSED2:
            return err_set(e, -EOPNOTSUPP,
                           "perf.data: compressed records are not supported; record without -z, or use "
                           "`perf script | wick convert - OUT`");
        case RECORD_AUXTRACE:
            return err_set(e, -EOPNOTSUPP, "perf.data: hardware traces (AUX) are not supported; use `perf script`");
        default:
            break;
        }
    }
    if (rc < 0)
        return rc;
    if (p->n_maps)
        qsort(p->maps, p->n_maps, sizeof *p->maps, by_pid_time);
    if (p->n_comms)
        qsort(p->comms, p->n_comms, sizeof *p->comms, by_tid_time);
    if (p->n_forks)
        qsort(p->forks, p->n_forks, sizeof *p->forks, by_tid_time);
    return builder_error(p->b);
}

/* --- samples --- */

/* The first entry after those of pid. */
static size_t maps_end(const struct perf_data *p, int64_t pid)
{
    size_t low = 0, high = p->n_maps;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (p->maps[mid].pid <= pid)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* The mapping of an address at a time: the latest before it, else any. */
static struct perf_mmap *find_map(struct perf_data *p, int64_t pid, uint64_t ip, uint64_t time)
{
    struct perf_mmap *later = NULL;

    for (size_t i = maps_end(p, pid); i > 0 && p->maps[i - 1].pid == pid && p->steps; i--) {
        struct perf_mmap *m = &p->maps[i - 1];

        p->steps--;
        if (ip - m->addr >= m->len)
            continue;
        if (m->time <= time)
            return m;
        later = m;
    }
    return later;
}

/* The last entry of tid at a time, else its first one; NULL if there is none. */
static const struct perf_name *find_name(const struct perf_name *v, size_t n, int64_t tid, uint64_t time)
{
    size_t low = 0, high = n;

    while (low < high) { /* the first entry after (tid, time) */
        size_t mid = low + (high - low) / 2;

        if (v[mid].tid < tid || (v[mid].tid == tid && v[mid].time <= time))
            low = mid + 1;
        else
            high = mid;
    }
    if (low > 0 && v[low - 1].tid == tid)
        return &v[low - 1];
    return low < n && v[low].tid == tid ? &v[low] : NULL;
}

static uint32_t mapping_of(struct perf_data *p, struct perf_mmap *m)
{
    struct mapping out;

    if (!m)
        return 0;
    out = (struct mapping){.start = m->addr, .limit = m->addr + m->len, .offset = m->pid < 0 ? 0 : m->pgoff};
    out.filename = m->file;
    if (!m->mapping)
        m->mapping = builder_mapping(p->b, &out, &m->build_id, m->build_id ? 1 : 0);
    return m->mapping;
}

/* The mapping of an address of a sample's process. */
static struct perf_mmap *mapping_at(struct perf_data *p, const struct perf_sample *s, uint64_t ip, bool kernel)
{
    int64_t pid = kernel ? -1 : (int64_t) s->pid;
    struct perf_mmap *m = find_map(p, pid, ip, s->time);

    for (int i = 0; !m && !kernel && i < PARENTS_MAX; i++) { /* a forked process has its parent's mappings */
        const struct perf_name *f = find_name(p->forks, p->n_forks, pid, s->time);

        if (!f || (int64_t) f->attr == pid)
            break;
        pid = f->attr;
        m = find_map(p, pid, ip, s->time);
    }
    return m;
}

static uint32_t locate(struct perf_data *p, const struct perf_sample *s, uint64_t ip, bool kernel)
{
    struct perf_mmap *m = mapping_at(p, s, ip, kernel);

    return builder_location(p->b,
                            &(struct builder_location){
                                .mapping = mapping_of(p, m), .address = ip, .attrs = &p->types[kernel], .n_attrs = 1});
}

/* --- copied stacks --- */

struct walked {
    struct perf_space space;
    struct perf_data *p;
    const struct perf_sample *s;
};

static bool find_place(const struct perf_space *space, uint64_t ip, struct perf_place *ret)
{
    const struct walked *w = container_of(space, struct walked, space);
    const struct batch *b = builder_batch(w->p->b);
    struct perf_mmap *m = mapping_at(w->p, w->s, ip, false);

    if (!m)
        return false;
    *ret = (struct perf_place){.mapping = (uint32_t) (m - w->p->maps),
                               .file = b->dict.strings[m->file],
                               .build_id = m->build_id ? value_str(&b->dict.attrs[m->build_id].value) : (struct str){0},
                               .start = m->addr,
                               .offset = m->pgoff};
    return true;
}

static uint32_t truncated(struct perf_data *p)
{
    if (!p->truncated) {
        struct function f = {.name = builder_string(p->b, STR("[truncated]"))};
        struct line line = {.function = builder_function(p->b, &f)};

        p->truncated = builder_location(p->b, &(struct builder_location){.lines = &line, .n_lines = 1});
    }
    return p->truncated;
}

/* Appends the frames of the program to the *n that there are. */
static void unwind_copy(struct perf_data *p, const struct perf_sample *s, uint32_t *n)
{
    struct walked w = {{find_place}, p, s};
    bool whole = false;
    uint32_t more = p->unwinder->unwind(p->unwinder, &s->user, &w.space, p->addresses, &whole);

    for (uint32_t i = 0; i < more && *n < FRAMES_MAX - 1; i++)
        p->stack[(*n)++] = locate(p, s, p->addresses[i], false);
    if (!whole)
        p->stack[(*n)++] = truncated(p);
}

static uint32_t attr_of(struct perf_data *p, uint64_t id)
{
    for (uint32_t i = 0; i < p->n_attrs && p->n_attrs > 1; i++)
        for (size_t k = 0; k < p->attrs[i].n_ids && p->steps; k++, p->steps--)
            if (load_u64(p->data.p + p->attrs[i].ids_at + 8 * k) == id)
                return i;
    return 0;
}

static uint32_t build_stack(struct perf_data *p, const struct perf_sample *s, bool kernel)
{
    bool exact = true; /* the first of each context was interrupted; the others are return addresses */
    uint32_t n = 0;

    for (uint64_t i = 0; i < s->n_chain && n < FRAMES_MAX - 1; i++) {
        uint64_t ip = load_u64(s->chain + 8 * i);

        if (ip >= CONTEXT_FIRST) {
            kernel = ip == CONTEXT_KERNEL || (kernel && ip != CONTEXT_USER);
            exact = true;
            continue;
        }
        if (s->has_stack && !kernel) /* the copy of the stack has the same frames and more */
            continue;
        p->stack[n++] = locate(p, s, exact || !ip ? ip : ip - 1, kernel);
        exact = false;
    }
    if (s->has_stack)
        unwind_copy(p, s, &n);
    if (!n)
        p->stack[n++] = locate(p, s, s->ip, kernel);
    return builder_stack(p->b, p->stack, n);
}

static int add_sample(struct perf_data *p, const struct perf_record *r)
{
    struct perf_sample s;
    struct sum_row row = {0};
    const struct perf_name *comm;
    uint32_t attrs[4], n = 0;

    if (!perf_sample_parse(&p->attrs[0], r->c, &s))
        return 0;
    row.profile = attr_of(p, s.id);
    if (row.profile && !perf_sample_parse(&p->attrs[row.profile], r->c, &s))
        return 0;
    comm = find_name(p->comms, p->n_comms, s.tid, s.time);
    if (comm)
        attrs[n++] = comm->attr;
    attrs[n++] = builder_attr_int(p->b, STR(SEMCONV_PROCESS_PID), s.pid, (struct str){0});
    attrs[n++] = builder_attr_int(p->b, STR(SEMCONV_THREAD_ID), s.tid, (struct str){0});
    if (s.has_cpu)
        attrs[n++] = builder_attr_int(p->b, STR("cpu.logical_number"), s.cpu, (struct str){0});
    row.stack = build_stack(p, &s, (r->misc & MISC_CPUMODE) == CPUMODE_KERNEL);
    row.attrs = builder_attrs(p->b, attrs, n);
    row.values[0] = 1;
    row.values[1] = (int64_t) MIN(s.period, (uint64_t) INT64_MAX);
    row.time = (int64_t) MIN(s.time, (uint64_t) INT64_MAX);
    return builder_error(p->b) ? builder_error(p->b) : sample_sum_add(&p->sum, &row);
}

static int write_profile(struct perf_data *p, uint32_t i)
{
    const struct perf_attr *a = &p->attrs[i];
    bool clock = strcmp(a->name, "cpu-clock") == 0 || strcmp(a->name, "task-clock") == 0;
    struct value_type types[2] = {{builder_string(p->b, STR("samples")), builder_string(p->b, STR("count"))},
                                  {builder_string(p->b, clock ? STR("cpu") : str_from(a->name)),
                                   builder_string(p->b, clock ? STR("nanoseconds") : STR("count"))}};

    return sample_sum_write(&p->sum, i, &(struct profile){.types = types, .n_types = 2}, 1, p->b);
}

static int second_pass(struct perf_data *p, struct err *e)
{
    struct perf_record r;
    int rc = 0;

    p->types[0] = builder_attr_str(p->b, STR(SEMCONV_FRAME_TYPE), STR("native"));
    p->types[1] = builder_attr_str(p->b, STR(SEMCONV_FRAME_TYPE), STR("kernel"));
    for (size_t at = p->begin; rc == 0 && next_record(p, &at, &r);)
        if (r.type == RECORD_SAMPLE)
            rc = add_sample(p, &r);
    if (rc < 0)
        return rc;
    if (!p->steps)
        return err_set(e, -E2BIG, "perf.data: too many mappings for the size of the file");
    if (!p->sum.n)
        return err_set(e, -ENODATA, "perf.data: no samples");
    for (uint32_t i = 0; rc == 0 && i < p->n_attrs; i++)
        if (sample_sum_has(&p->sum, i))
            rc = write_profile(p, i);
    return rc;
}

/* --- the whole file --- */

bool perf_data_probe(struct str data)
{
    return str_starts(data, STR("PERFILE2")) || str_starts(data, STR("2ELIFREP"));
}

static struct str read_arch(struct cursor c)
{
    uint32_t n = get_u32(&c);

    c.end = c.p + MIN((size_t) n, (size_t) (c.end - c.p));
    return text_of(&c);
}

/* The unwind rules are those of this machine's kind. */
static int check_copies(const struct perf_data *p, struct str arch, struct err *e)
{
    struct utsname u;
    bool copies = false;

    for (uint32_t i = 0; i < p->n_attrs; i++)
        copies |= perf_attr_copies(&p->attrs[i]);
    if (!copies)
        return 0;
    if (!p->unwinder)
        return err_set(
            e, -EOPNOTSUPP,
            "perf.data: its stacks were copied (--call-graph dwarf) and can be unwound only where the binaries are; run "
            "there: wick convert perf.data OUT.pb.gz");
    if (uname(&u) == 0 && arch.n && !str_is(arch, u.machine))
        return err_set(e, -EOPNOTSUPP,
                       "perf.data: its stacks were copied (--call-graph dwarf) on %.*s and cannot be unwound on %s",
                       STR_FMT(arch), u.machine);
    return 0;
}

static int read_file(struct perf_data *p, struct err *e)
{
    const char *h = p->data.p;
    struct cursor ids = cursor_of(NULL, 0), features;
    struct str arch = {0};
    uint64_t at, size;
    int r;

    if (str_starts(p->data, STR("2ELIFREP")))
        return err_set(e, -EOPNOTSUPP,
                       "perf.data: big-endian files are not supported; use `perf script` where it was made");
    if (p->data.n >= 16 && load_u64(h + 8) == 16)
        return err_set(e, -EOPNOTSUPP, "perf.data: pipe mode is not supported; record to a file with -o FILE");
    if (p->data.n < 104)
        return err_set(e, -EINVAL, "perf.data: the header is cut short");
    r = read_attrs(p, section(p, load_u64(h + 24), load_u64(h + 32)), load_u64(h + 16), e);
    if (r < 0)
        return r;
    at = load_u64(h + 40);
    size = load_u64(h + 48);
    if (section(p, at, size).bad)
        return err_set(e, -EINVAL, "perf.data: the data are cut short: %llu bytes at %llu are not in the file",
                       (unsigned long long) size, (unsigned long long) at);
    p->begin = (size_t) at;
    p->end = (size_t) (at + size);
    features = section(p, at + size, p->data.n - (at + size));
    for (int bit = 0; bit < FEATURE_BITS; bit++) {
        struct cursor s;

        if (!(load_u64(h + 72 + bit / 64 * 8) >> bit % 64 & 1))
            continue;
        at = get_u64(&features);
        size = get_u64(&features);
        s = section(p, at, size);
        if (!features.bad && !s.bad && bit == FEATURE_BUILD_ID)
            ids = s;
        else if (!features.bad && !s.bad && bit == FEATURE_EVENT_DESC)
            read_event_names(p, s);
        else if (!features.bad && !s.bad && bit == FEATURE_ARCH)
            arch = read_arch(s);
    }
    r = check_copies(p, arch, e);
    if (r < 0)
        return r;
    r = first_pass(p, ids, e);
    return r < 0 ? r : second_pass(p, e);
}

int perf_data_decode(struct str data, const struct perf_data_options *o, struct batch **ret, struct err *e)
{
    struct perf_data *p = mem_zalloc(sizeof *p);
    int r = p ? builder_new(&(struct builder_limits){.memory = o->memory}, &p->b) : -ENOMEM;

    if (r == 0) {
        p->data = data;
        p->memory = o->memory;
        p->unwinder = o->unwinder;
        p->steps = (uint64_t) data.n * STEPS_PER_BYTE + 1;
        p->sum.limit = sample_sum_limit(o->memory);
        p->sum.times = o->times;
        builder_resource(p->b);
        builder_scope(p->b, (struct str){0}, (struct str){0});
        r = read_file(p, e);
    }
    if (r == 0)
        r = builder_finish(p->b, ret, e);
    if (p) {
        builder_free(p->b);
        sample_sum_done(&p->sum);
        mem_free(p->maps);
        mem_free(p->comms);
        mem_free(p->forks);
    }
    mem_free(p);
    return r < 0 && e && !e->code ? err_set(e, r, "perf.data: %m") : r;
}
