/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps where the lines of one process's perf map are, and reads names when they are asked for; proc/jit_names.c parses
 * lines. The agent's thread only. */
#include "agent/perf_map.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>

#include "agent/process.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/mem.h"
#include "proc/far_call.h"
#include "proc/jit_names.h"

enum { TAIL = 64, LINE_MAX_BYTES = ADDR_NAME_MAX + 64, PIECE_MAX = 4 << 20 };
#define PAUSE_NS (NS_PER_S / 4)

struct perf_map {
    int fd;
    off_t pos;     /* what was read, complete lines */
    uint64_t tail; /* hash of the bytes before it: the file was written anew when they change */
    struct addr_name *v;
    size_t n, cap;
    bool cut; /* there is more, and no memory for it */
    int64_t next_ns;
};

static struct {
    size_t memory, piece, used;
    uint64_t cut;
    char line[LINE_MAX_BYTES];
} all;

void perf_maps_limit(size_t memory, size_t piece)
{
    all.memory = memory;
    all.piece = piece;
}

uint64_t perf_maps_cut(void)
{
    return all.cut;
}

int perf_map_new(const struct process *p, struct perf_map **ret, struct err *e)
{
    struct perf_map *m;
    int fd = jit_names_open("/proc", (int) p->pid, e);

    if (fd < 0)
        return fd;
    m = mem_zalloc(sizeof *m);
    if (!m) {
        fd_close(fd);
        return -ENOMEM;
    }
    m->fd = fd;
    perf_map_refresh(m, p);
    *ret = m;
    return 0;
}

static void forget_places(struct perf_map *m)
{
    all.used -= m->cap * sizeof *m->v;
    mem_free(m->v);
    m->v = NULL;
    m->n = m->cap = 0;
    m->pos = 0;
    m->tail = 0;
    m->cut = false;
}

void perf_map_free(struct perf_map *m)
{
    if (!m)
        return;
    forget_places(m);
    fd_close(m->fd);
    mem_free(m);
}

/* --- reading --- */

/* Makes room for one more; false: there is no memory for it. */
static bool has_room(struct perf_map *m)
{
    size_t cap = m->cap;

    if (m->n < m->cap)
        return true;
    if (all.memory && all.used + (m->cap + m->cap / 2 + 1024) * sizeof *m->v > all.memory)
        return false;
    if (array_reserve(m->v, m->cap, m->n + 1, ADDR_NAMES_MAX) < 0)
        return false;
    all.used += (m->cap - cap) * sizeof *m->v;
    return true;
}

/* Adds the complete lines of text; returns how many bytes they are. */
static size_t add_lines(struct perf_map *m, struct str text)
{
    const char *begin = text.p;
    size_t used = 0, before = m->n;

    while (text.n && str_find_char(text, '\n') >= 0) {
        struct str line = str_cut(&text, '\n'), name;
        uint64_t at = (uint64_t) m->pos + (size_t) (line.p - begin), start, size;

        used = (size_t) (line.p + line.n + 1 - begin);
        if (!jit_names_line(line, &start, &size, &name))
            continue;
        if (at > UINT32_MAX || !has_room(m)) {
            all.cut += !m->cut;
            m->cut = true;
            break;
        }
        m->v[m->n++] = (struct addr_name){start, (uint32_t) MIN(size, (uint64_t) UINT32_MAX), (uint32_t) at};
    }
    m->n = addr_names_merge(m->v, before, m->n);
    return used;
}

/* The hash of the bytes before the position; 0: they cannot be read. */
static uint64_t hash_tail(const struct perf_map *m)
{
    char text[TAIL];
    size_t n = (size_t) MIN(m->pos, (off_t) TAIL);

    return fd_pread_all(m->fd, text, n, m->pos - (off_t) n) == 0 ? hash64(text, n) : 0;
}

/* Reads one piece; false when there is no more, or no budget for it. */
static bool read_piece(struct perf_map *m, off_t size)
{
    size_t want = (size_t) MIN(size - m->pos, (off_t) (all.piece ? all.piece : (size_t) PIECE_MAX)), used = 0;
    int64_t begin = clock_cpu();
    char *text;

    if (m->cut || m->pos >= size || !far_spend(0))
        return false;
    text = mem_alloc(want);
    if (text && fd_pread_all(m->fd, text, want, m->pos) == 0)
        used = add_lines(m, (struct str){text, (uint32_t) want});
    mem_free(text);
    if (used) {
        m->pos += (off_t) used;
        m->tail = hash_tail(m);
    }
    far_spend(clock_cpu() - begin);
    return used && !all.piece;
}

void perf_map_refresh(struct perf_map *m, const struct process *p)
{
    int64_t now = clock_mono();
    struct stat st;
    FAR_FOR(p->pid);

    if (now < m->next_ns || fd_stat(m->fd, &st) < 0)
        return;
    m->next_ns = now + PAUSE_NS;
    if (st.st_size < m->pos || (m->pos && st.st_size > m->pos && hash_tail(m) != m->tail))
        forget_places(m);
    while (read_piece(m, MIN(st.st_size, (off_t) JIT_NAMES_FILE_MAX)))
        ;
    if (st.st_size > JIT_NAMES_FILE_MAX && !m->cut) {
        all.cut++;
        m->cut = true;
    }
}

void perf_map_expire(struct perf_map *m)
{
    m->next_ns = 0;
}

size_t perf_map_count(const struct perf_map *m)
{
    return m->n;
}

/* --- names --- */
static const struct addr_name *place_of(const struct perf_map *m, uint64_t address)
{
    return addr_names_at(m->v, m->n, address);
}

uint64_t perf_map_place(const struct perf_map *m, uint64_t address)
{
    const struct addr_name *x = place_of(m, address);

    return x ? x->name + 1ull : 0;
}

/* The name in the file, if the line is still the one that was read. */
static bool read_name(struct perf_map *m, const struct addr_name *x, struct str *ret)
{
    ssize_t n = fd_pread(m->fd, all.line, sizeof all.line, (off_t) x->name);
    struct str text = {all.line, (uint32_t) MAX(n, 0)}, line = str_cut(&text, '\n');
    uint64_t start, size;

    if (n <= 0 || !jit_names_line(line, &start, &size, ret) || start != x->start ||
        MIN(size, (uint64_t) UINT32_MAX) != x->size)
        return false;
    ret->n = MIN(ret->n, (uint32_t) ADDR_NAME_MAX);
    return true;
}

bool perf_map_find(struct perf_map *m, const struct process *p, uint64_t address, struct str *ret)
{
    const struct addr_name *x;
    FAR_FOR(p->pid);

    perf_map_refresh(m, p);
    x = place_of(m, address);
    return x && read_name(m, x, ret);
}
