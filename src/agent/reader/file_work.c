/* SPDX-License-Identifier: Apache-2.0 */
/* Reads binaries for the agent (file_work.h), in the confined process. A file may be truncated while it is read: the
 * work runs under object_guard(), which turns SIGBUS into -EIO. */
#include "agent/reader/file_work.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <zlib.h>

#include "agent/lang/lang.h"
#include "agent/object_guard.h"
#include "agent/reader/file_names.h"
#include "agent/v8_builtins.h"
#include "base/mem.h"
#include "base/sealed.h"
#include "elf/go_build.h"
#include "model/symbol_wire.h"
#include "unwind/elf_table.h"
#include "unwind/table_share.h"

enum { VDSO_MAX = 1 << 20 };

struct file_work {
    const struct file_request *q;
    const int *fds;
    struct file_answer *answer;
    int *ret_fd;
};

void file_request_path(struct file_request *q, const char *path)
{
    size_t n = strlen(path), room = sizeof q->path - 1;

    snprintf(q->path, sizeof q->path, "%s", n > room ? path + (n - room) : path);
}

static int open_vdso(struct elf_file **ret)
{
    const void *at = (const void *) getauxval(AT_SYSINFO_EHDR); // NOLINT: the kernel's address
    const Elf64_Ehdr *h = at;
    void *copy;
    size_t n;

    if (!at)
        return -ENOENT;
    n = h->e_shoff + (size_t) h->e_shnum * h->e_shentsize;
    copy = n < VDSO_MAX ? mem_dup(at, n) : NULL;
    if (!copy)
        return -ENOMEM;
    if (elf_from_bytes(copy, n, true, ret, NULL) < 0) {
        mem_free(copy);
        return -ENOEXEC;
    }
    return 0;
}

static int open_file(const struct file_request *q, int fd, struct elf_file **ret)
{
    _cleanup_(elf_freep) struct elf_file *f = NULL;
    char id[ELF_ID_MAX];
    int r = q->is_vdso ? open_vdso(&f) : fd < 0 ? -EBADF : elf_open_fd(fd, &f, NULL);

    if (r < 0)
        return r;
    if (q->expects_id && (!elf_gnu_build_id(f, id) || strcmp(id, q->id) != 0))
        return -ESTALE;
    *ret = TAKE(f);
    return 0;
}

/* --- facts --- */
static bool has_lines(const struct elf_file *f)
{
    const struct elf_section *s = elf_find_section(f, ".debug_info");

    return (s && s->type != SHT_NOBITS) || elf_find_section(f, ".zdebug_info");
}

static void get_debug_link(const struct elf_file *f, struct file_facts *ret)
{
    struct elf_bytes link = elf_section_bytes(f, ".gnu_debuglink");
    size_t n = link.n > 4 ? strnlen((const char *) link.p, link.n - 4) : 0;

    if (!n || n >= sizeof ret->debug_link || memchr(link.p, '/', n))
        return;
    memcpy(ret->debug_link, link.p, n);
    memcpy(&ret->debug_crc, link.p + (link.n - 4), 4); /* the name, zeros up to a multiple of four, the checksum */
}

static void copy_text(char *to, size_t size, struct str s)
{
    snprintf(to, size, "%.*s", (int) MIN((size_t) s.n, size - 1), s.p ? s.p : "");
}

static void get_go_build(const struct elf_file *f, struct file_facts *ret)
{
    struct go_build g;

    if (!go_build_read(f, &g))
        return;
    ret->has_go_build = 1;
    ret->go_modified = g.vcs_modified;
    copy_text(ret->go_version, sizeof ret->go_version, g.version);
    copy_text(ret->go_revision, sizeof ret->go_revision, g.vcs_revision);
}

static int get_facts(const struct elf_file *f, bool want_hash, struct file_facts *ret)
{
    static const char *const named[] = {".symtab", ".gnu_debugdata", ".gopclntab"};

    elf_gnu_build_id(f, ret->gnu_id);
    ret->is_go = elf_find_section(f, ".gopclntab") || elf_find_section(f, ".go.buildinfo");
    if (ret->is_go)
        elf_go_build_id(f, ret->go_id);
    if (want_hash || (!ret->gnu_id[0] && !ret->go_id[0])) {
        char id[ELF_ID_MAX];

        elf_htlhash(f, id);
        snprintf(ret->hash, sizeof ret->hash, "%.39s", id);
    }
    ret->entry = f->entry;
    ret->has_lines = has_lines(f);
    for (size_t i = 0; i < ARRAY_SIZE(named); i++)
        ret->has_names |= elf_find_section(f, named[i]) != NULL;
    get_debug_link(f, ret);
    get_go_build(f, ret);
    ret->has_span = tls_symbol_find(f, STR("otel_thread_ctx_v1"), &ret->span);
    for (uint32_t i = 0; i < f->n_segments; i++) {
        if (f->segments[i].type != PT_LOAD)
            continue;
        if (ret->n_segments == FILE_SEGMENTS_MAX)
            return -E2BIG;
        ret->segments[ret->n_segments++] = f->segments[i];
    }
    return 0;
}

static int match(const struct file_request *q, const struct elf_file *f, struct file_facts *ret)
{
    char id[ELF_ID_MAX];

    ret->has_lines = has_lines(f);
    if (q->id[0])
        return elf_gnu_build_id(f, id) && strcmp(id, q->id) == 0;
    return f->size <= ELF_DEBUGLINK_MAX && crc32_z(crc32_z(0, NULL, 0), f->data, f->size) == q->crc;
}

/* --- what has no fixed size --- */
static int make_table(struct file_work *w, const struct elf_file *f)
{
    _cleanup_(elf_freep) struct elf_file *debug = NULL;
    _cleanup_(unwind_table_freep) struct unwind_table *t = NULL;
    struct file_range *range = &w->answer->range;
    int r;

    if (w->fds[1] >= 0)
        elf_open_fd(w->fds[1], &debug, NULL);
    v8_builtins_find(f, w->q->path, &range->lo, &range->hi);
    r = elf_table_new(f, debug, &t, NULL);
    return r < 0 ? r : unwind_table_share(t, w->ret_fd);
}

static int make_names(struct file_work *w, const struct elf_file *f)
{
    _cleanup_(symbol_answer_freep) struct symbol_answer *a = NULL;
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    struct str all;
    int r = file_names(f, w->q->addresses, w->q->n_addresses, &a);

    if (r == 0)
        r = symbol_wire_put_answer(&b, a);
    if (r < 0)
        return r;
    all = str_slice(buf_str(&b), SYMBOL_WIRE_PREFIX, b.n);
    return all.n > FILE_NAMES_MAX ? -E2BIG : sealed_new("wick-names", &all, 1, w->ret_fd);
}

static int do_work(void *arg)
{
    struct file_work *w = arg;
    const struct file_request *q = w->q;
    _cleanup_(elf_freep) struct elf_file *f = NULL;
    struct file_answer *a = w->answer;
    int r = open_file(q, w->fds[0], &f);

    if (r < 0)
        return r;
    switch ((enum file_op) q->op) {
    case FILE_FACTS:
        return get_facts(f, q->want_hash, &a->facts);
    case FILE_MATCH:
        return match(q, f, &a->facts);
    case FILE_TABLE:
        return make_table(w, f);
    case FILE_NAMES:
        return make_names(w, f);
    case FILE_LANG:
        return q->lang < LANGS && langs[q->lang]->read_file
                   ? langs[q->lang]->read_file(f, q->path, &q->lang_question, a->lang)
                   : -EINVAL;
    }
    return -EINVAL;
}

void file_work(const struct file_request *q, const int fds[2], struct file_answer *ret, int *ret_fd)
{
    struct file_work w = {q, fds, ret, ret_fd};

    memset(ret, 0, sizeof *ret); /* padding, too: it goes to another process */
    *ret_fd = -1;
    ret->code = object_guard(do_work, &w);
}

/* --- checks --- */
static bool is_text(const char *p, size_t size)
{
    return memchr(p, 0, size) != NULL;
}

static bool are_facts_valid(const struct file_facts *f)
{
    return is_text(f->gnu_id, sizeof f->gnu_id) && is_text(f->go_id, sizeof f->go_id) &&
           is_text(f->hash, sizeof f->hash) && is_text(f->debug_link, sizeof f->debug_link) &&
           !strchr(f->debug_link, '/') && is_text(f->go_version, sizeof f->go_version) &&
           is_text(f->go_revision, sizeof f->go_revision) && f->n_segments <= FILE_SEGMENTS_MAX &&
           (unsigned) f->span.access <= TLS_DESCRIPTOR;
}

bool file_answer_is_valid(const struct file_request *q, const struct file_answer *a)
{
    if (a->code > 1 || a->code < -4095) /* the lowest error code in Linux */
        return false;
    switch ((enum file_op) q->op) {
    case FILE_FACTS:
    case FILE_MATCH:
        return are_facts_valid(&a->facts);
    case FILE_TABLE:
        return a->range.lo <= a->range.hi;
    case FILE_LANG:
        return q->lang < LANGS && (a->code < 0 || langs[q->lang]->is_answer_valid(&q->lang_question, a->lang));
    case FILE_NAMES:
        return true;
    }
    return false;
}
