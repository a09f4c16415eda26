/* SPDX-License-Identifier: Apache-2.0 */
/* Walks copied stacks by the agent's steps (stack_walk.h), and counts why walks end early. */
#include "local/local_unwind.h"

#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "agent/stack_walk.h"
#include "base/clock.h"
#include "base/fd.h"
#include "elf/elf.h"
#include "elf/elf_id.h"
#include "local/local_objects.h"
#include "unwind/table.h"

_Static_assert((int) PERF_ID_MAX >= (int) ELF_ID_MAX, "a build id fits");

struct rule_context {
    struct local_unwind *u;
    const struct perf_space *space;
    bool missing;
};

static struct str file_part(struct str path)
{
    for (uint32_t i = path.n; i > 0; i--)
        if (path.p[i - 1] == '/')
            return str_slice(path, i, path.n);
    return path;
}

static const struct unwind_rule *find_rule(void *arg, uint64_t address, uint32_t *ret_end)
{
    struct rule_context *c = arg;
    struct perf_place place;
    struct local_object *x;
    const struct unwind_table *t;
    uint64_t at;

    *ret_end = AGENT_END_NO_MAPPING;
    if (!c->space->find(c->space, address, &place))
        return NULL;
    x = local_object_find(c->u->objects, place.file, place.build_id);
    if (!x && place.file.n && place.file.p[0] == '/' && !str_starts(place.file, STR("//"))) {
        *ret_end = AGENT_END_NO_RULE;
        c->missing = true;
        if (!c->u->missing_name[0])
            snprintf(c->u->missing_name, sizeof c->u->missing_name, "%.*s", STR_FMT(file_part(place.file)));
        return NULL;
    }
    t = x ? local_object_table(x) : NULL;
    *ret_end = t ? AGENT_END_NO_RULE : AGENT_END_NONE;
    return t && local_object_address(x, address - place.start + place.offset, &at) ? unwind_find(t, at) : NULL;
}

static size_t read_code(void *arg, uint64_t address, uint8_t *ret, size_t n)
{
    struct rule_context *c = arg;
    struct perf_place place;
    struct local_object *x;
    uint64_t at;

    if (!c->space->find(c->space, address, &place))
        return 0;
    x = local_object_find(c->u->objects, place.file, place.build_id);
    at = address - place.start + place.offset;
    if (!x || at >= x->elf->size)
        return 0;
    n = MIN(n, x->elf->size - at);
    memcpy(ret, x->elf->data + at, n);
    return n;
}

static bool infer(void *arg, uint64_t pc, struct unwind_rule *ret)
{
    return stack_infer(read_code, arg, pc, ret);
}

static bool called(void *arg, uint64_t pc)
{
    return stack_called(read_code, arg, pc);
}

static uint32_t unwind(struct perf_unwinder *unwinder, const struct perf_stack *s, const struct perf_space *space,
                       uint64_t ret[PERF_STACK_FRAMES], bool *whole)
{
    struct local_unwind *u = container_of(unwinder, struct local_unwind, unwinder);
    struct rule_context c = {u, space, false};
    struct stack_copy copy = {s->sp, s->bytes.n, str_bytes(s->bytes)};
    struct agent_regs regs = {.pc = s->pc, .sp = s->sp, .exact = true, .is_leaf = true};
    struct stack_words words = {ret, 0, PERF_STACK_FRAMES, false};
    struct stack_source source = {find_rule, infer, called, NULL, &c};
    enum agent_end end;

#if defined(__x86_64__)
    regs.fp = s->regs[6];
    regs.bx = s->regs[3];
#else
    regs.fp = s->regs[29];
#endif
    memcpy(regs.leaf, s->regs, MIN(sizeof regs.leaf, sizeof s->regs));
    end = stack_walk(&regs, &copy, &source, &words);
    for (uint32_t i = 0; i < words.n; i++)
        ret[i] = AGENT_WORD_VALUE(ret[i]) - (AGENT_WORD_KIND(ret[i]) != AGENT_WORD_EXACT);
    u->stacks++;
    u->inferred += words.inferred;
    *whole = end == AGENT_END_ROOT;
    if (c.missing)
        u->missing++;
    else if (end == AGENT_END_BAD || end == AGENT_END_DEPTH)
        u->deep++;
    else if (!*whole)
        u->unknown++;
    return words.n;
}

/* Whether the open file is the one that was mapped, and was not changed since. */
static bool is_same(int fd, const struct perf_inode *want, int64_t written_ns)
{
    struct stat st;
    int generation = 0;

    if (fstat(fd, &st) < 0 || st.st_ino != want->inode || major(st.st_dev) != want->major ||
        minor(st.st_dev) != want->minor)
        return false;
    if (ioctl(fd, FS_IOC_GETVERSION, &generation) == 0 && want->generation &&
        (uint32_t) generation != (uint32_t) want->generation)
        return false;
    return st.st_ctim.tv_sec * NS_PER_S + st.st_ctim.tv_nsec < written_ns;
}

static bool identify(struct perf_unwinder *unwinder, struct str file, const struct perf_inode *inode,
                     char ret[PERF_ID_MAX])
{
    struct local_unwind *u = container_of(unwinder, struct local_unwind, unwinder);
    _cleanup_(buf_done) struct buf name = BUF_INIT;
    _cleanup_(fd_closep) int fd = -EINVAL;
    _cleanup_(elf_freep) struct elf_file *f = NULL;

    buf_put_str(&name, file);
    if (u->written_ns && buf_cstr(&name))
        fd = fd_open_regular(name.p);
    return fd >= 0 && is_same(fd, inode, u->written_ns) && elf_open_fd(fd, &f, NULL) >= 0 && elf_gnu_build_id(f, ret);
}

void local_unwind_init(struct local_unwind *u, struct local_objects *objects, int64_t written_ns)
{
    *u = (struct local_unwind){.unwinder = {unwind, identify}, .objects = objects, .written_ns = written_ns};
}

void local_unwind_say(const struct local_unwind *u, struct buf *out)
{
    uint64_t cut = u->deep + u->missing + u->unknown;

    if (u->inferred)
        buf_printf(out,
                   "in %llu of %llu stacks callers were inferred from instructions: there is no unwind information%s",
                   (unsigned long long) u->inferred, (unsigned long long) u->stacks, cut ? "; " : "");
    if (!cut)
        return;
    buf_printf(out, "%llu of %llu stacks are incomplete and begin at [truncated]:", (unsigned long long) cut,
               (unsigned long long) u->stacks);
    if (u->deep)
        buf_printf(out, " %llu are deeper than the copy (record with --call-graph dwarf,65528)%s",
                   (unsigned long long) u->deep, u->missing || u->unknown ? "," : "");
    if (u->missing)
        buf_printf(out, " %llu pass through binaries that are not here or have changed (%s)%s",
                   (unsigned long long) u->missing, u->missing_name, u->unknown ? "," : "");
    if (u->unknown)
        buf_printf(out, " %llu pass through code without unwind information", (unsigned long long) u->unknown);
}
