/* SPDX-License-Identifier: Apache-2.0 */
/* The table of frames and their names (frame_table.h). A cache from pc to frame avoids searching the modules; it is
 * emptied when the modules change. */
#include "sdk/frame_table.h"

#include <errno.h>
#include <string.h>

#include "base/arena.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/mem.h"
#include "elf/elf.h"
#include "sdk/ext_frames.h"
#include "sdk/jit_frames.h"
#include "sdk/modules.h"
#include "sdk/name_query.h"

enum { CACHE = 2048 };

static struct sdk_frame *frames;
static size_t n_frames, cap_frames;
static struct map index_;
static struct arena names;
static uint32_t cache_generation;

static struct {
    uint64_t pc;
    uint32_t id;
} cache[CACHE];

static uint32_t add_frame(uint32_t file, uint64_t address)
{
    uint64_t h = hash64_u64(address * 31 + file);

    for (struct map_pos p = map_find(&index_, h); p.index != MAP_NONE; p = map_next(&index_, p))
        if (frames[p.index].address == address && frames[p.index].file == file)
            return p.index;
    if (array_reserve(frames, cap_frames, n_frames + 1, FRAMES_MAX) < 0 ||
        map_insert(&index_, h, (uint32_t) n_frames) < 0)
        return FRAME_TRUNCATED;
    frames[n_frames] = (struct sdk_frame){.file = file, .address = address};
    return (uint32_t) n_frames++;
}

static void add_special(const char *name, uint64_t number)
{
    uint32_t id = add_frame(0, number);

    if (n_frames > id)
        frames[id] = (struct sdk_frame){.asked = true, .address = number, .name = str_from(name)};
}

static bool begin(void)
{
    if (n_frames)
        return true;
    add_special("[truncated]", 0);
    add_special("[parked]", 1);
    add_special("[cut]", 2);
    add_special("[unseen]", 3);
    return n_frames > 0;
}

/* A frame of an extension, which already has its name and line. */
static uint32_t add_external(uint64_t number)
{
    const struct ext_frame *x = ext_frames_at(number);
    uint32_t id = x ? add_frame(FRAME_EXTERNAL, number) : FRAME_TRUNCATED;

    if (id != FRAME_TRUNCATED && !frames[id].asked) {
        frames[id].asked = frames[id].lines_asked = true;
        frames[id].name = x->line.function;
        frames[id].lines = (struct line_answer){1, &x->line};
    }
    return id;
}

uint32_t frames_resolve(const uint64_t *pc, uint32_t n, uint32_t generation, uint32_t *ret)
{
    const struct module_set *set = modules_generation(generation), *newest = atomic_load(&core.modules);

    if (!begin())
        return 0;
    if (generation != cache_generation) {
        memset(cache, 0, sizeof cache);
        cache_generation = generation;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint64_t at = ext_frames_is_late(pc[i]) ? pc[i] : pc[i] - 1;
        uint32_t slot = (uint32_t) (hash64_u64(at) >> 32) % CACHE;
        const struct module *m;

        if (ext_frames_is(pc[i])) {
            ret[i] = add_external(pc[i]);
            continue;
        }
        if (ext_frames_is_late(pc[i])) {
            if (cache[slot].pc != at) {
                cache[slot].id = add_external(ext_frames_name_late(pc[i]));
                cache[slot].pc = at;
            }
            ret[i] = cache[slot].id;
            continue;
        }
        if (cache[slot].pc != at) {
            m = set ? modules_find(set, at) : NULL;
            if (!m && newest && newest != set) /* loaded after that generation, and sampled before it was noticed */
                m = modules_find(newest, at);
            cache[slot].id = m ? add_frame(m->file, at - m->bias) : add_frame(0, at);
            cache[slot].pc = at;
        }
        ret[i] = cache[slot].id;
    }
    return n;
}

const struct sdk_frame *frame_at(uint32_t id)
{
    return &frames[id < n_frames ? id : 0];
}

const char *frame_file(const struct sdk_frame *f)
{
    const struct module_file *m = f->file ? modules_file(f->file) : NULL;

    return m && m->path ? m->path : "";
}

uint32_t frames_count(void)
{
    return (uint32_t) n_frames;
}

/* --- names --- */
/* "/usr/lib/debug/.build-id/ab/cdef.debug" */
static int open_debug_file(const struct module_file *f, struct elf_file **ret)
{
    static const char prefix[] = "/usr/lib/debug/.build-id/";
    char path[sizeof prefix + 2 * BUILD_ID_MAX + sizeof "/.debug"];
    char *end = path + sizeof prefix - 1;

    if (f->build_id_n < 2)
        return -ENOENT;
    memcpy(path, prefix, sizeof prefix);
    end = hex_write(end, f->build_id, 1);
    *end++ = '/';
    end = hex_write(end, f->build_id + 1, f->build_id_n - 1);
    memcpy(end, ".debug", sizeof ".debug");
    return elf_open(path, ret, NULL);
}

static int open_file(const struct module_file *f, bool debug, struct elf_file **ret)
{
    if (!debug)
        return modules_open(f, ret);
    return f->memory ? -ENOENT : open_debug_file(f, ret);
}

static void name_file(uint32_t file, struct name_query *q, size_t n)
{
    const struct module_file *f = modules_file(file);

    name_query_sort(q, n);
    for (int debug = 0; f && f->path && debug < 2; debug++) { /* a file with separate symbols, where installed */
        _cleanup_(elf_freep) struct elf_file *elf = NULL;

        if (open_file(f, debug, &elf) < 0)
            continue;
        name_query(elf, q, n);
        for (size_t i = 0; i < n; i++) {
            struct sdk_frame *fr = &frames[q[i].index];

            if (q[i].name.n && (!fr->name.n || debug)) {
                fr->name = arena_str(&names, q[i].name);
                fr->start = q[i].value;
            }
            q[i].name = (struct str){0}; /* the name points into the file */
            q[i].rank = 0;
        }
    }
}

static bool is_jit(const struct sdk_frame *f)
{
    return f->file == 0 && !f->asked && f->address > FRAME_CUT;
}

/* Code in no file was compiled by a JIT. */
static void name_jit(const uint32_t *ids, uint32_t n)
{
    jit_frames_refresh();
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] < n_frames && is_jit(&frames[ids[i]])) {
            frames[ids[i]].name = arena_str(&names, jit_frames_find(frames[ids[i]].address));
            frames[ids[i]].asked = true;
        }
}

void frames_name(const uint32_t *ids, uint32_t n)
{
    struct name_query *q = mem_alloc(sizeof *q * MAX(n, 1u));
    uint32_t n_files = modules_files();
    uint8_t *wanted = mem_zalloc(n_files + 1ul);

    if (q && wanted) {
        bool jit = false;

        for (uint32_t i = 0; i < n; i++)
            if (ids[i] < n_frames && !frames[ids[i]].asked) {
                wanted[frames[ids[i]].file] = 1;
                jit |= is_jit(&frames[ids[i]]);
            }
        if (jit)
            name_jit(ids, n);
        for (uint32_t file = 1; file < n_files; file++) {
            size_t k = 0;

            for (uint32_t i = 0; wanted[file] && i < n; i++) {
                struct sdk_frame *f = ids[i] < n_frames ? &frames[ids[i]] : NULL;

                if (!f || f->asked || f->file != file)
                    continue;
                f->asked = true;
                q[k++] = (struct name_query){.address = f->address, .index = ids[i]};
            }
            if (k)
                name_file(file, q, k);
        }
    }
    mem_free(q);
    mem_free(wanted);
}

/* --- lines --- */
/* Lines of one file; returns the number of frames asked about, or -ENOENT if no symbolizer is available. */
static int find_lines_of(uint32_t file, const uint32_t *ids, uint32_t n, int64_t deadline, void (*pump)(void))
{
    const struct module_file *f = modules_file(file);
    _cleanup_(mem_freep) uint64_t *addresses = mem_zalloc_array(n, sizeof *addresses);
    _cleanup_(mem_freep) uint32_t *asked = mem_zalloc_array(n, sizeof *asked);
    _cleanup_(mem_freep) struct line_answer *answers = mem_zalloc_array(n, sizeof *answers);
    const char *path;
    char buf[32];
    uint32_t k = 0;
    int r = 0;

    if (!addresses || !asked || !answers || !f || !f->path || f->memory)
        return 0;
    for (uint32_t i = 0; i < n; i++) {
        struct sdk_frame *fr = ids[i] < n_frames ? &frames[ids[i]] : NULL;

        if (!fr || fr->file != file || fr->lines_asked)
            continue;
        fr->lines_asked = true;
        asked[k] = ids[i];
        addresses[k++] = fr->address;
    }
    path = k ? modules_path(f, buf, sizeof buf) : NULL; /* a file that was replaced has the lines of other code */
    if (path)
        r = line_query(&(struct line_request){path, addresses, k, deadline, pump}, &names, answers);
    for (uint32_t i = 0; i < k; i++) {
        frames[asked[i]].lines = answers[i];
        frames[asked[i]].lines_asked = r != -ETIMEDOUT; /* otherwise the next export asks again */
    }
    return r == -ENOENT ? r : (int) k;
}

uint32_t frames_find_lines(const uint32_t *ids, uint32_t n, int64_t deadline, void (*pump)(void))
{
    _cleanup_(mem_freep) uint8_t *wanted = mem_zalloc(modules_files() + 1ul);
    uint32_t n_files = modules_files(), asked = 0;

    for (uint32_t i = 0; wanted && i < n; i++)
        if (ids[i] < n_frames && !frames[ids[i]].lines_asked)
            wanted[frames[ids[i]].file] = 1;
    for (uint32_t file = 1; wanted && file < n_files; file++) {
        int r = wanted[file] ? find_lines_of(file, ids, n, deadline, pump) : 0;

        if (r < 0)
            break;
        asked += (uint32_t) r;
    }
    return asked;
}
