/* SPDX-License-Identifier: Apache-2.0 */
/* Disassembles a function for the web UI (serve_code.h) with GNU objdump, which runs confined and for a limited time. */
#include "serve/serve_code.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/child.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/sealed.h"
#include "server/name_source.h"
#include "symbol/symbol_code.h"

enum { HEAD_MAX = 128 + SYMBOL_CODE_NAME_MAX, TEXT_MAX = 8 << 20, INSTRUCTIONS_MAX = SYMBOL_CODE_MAX };

#define CHILD_LIMIT (5 * NS_PER_S)

/* A function while it is disassembled. */
struct disassembly {
    struct name_source *names;
    const struct ui_code *q;
    char path[BINARY_PATH_SIZE];
    unsigned machine;
    uint64_t from, end;
    struct str name, code;
    struct buf raw, text; /* output of the two programs */
    struct instruction {
        uint64_t address, target; /* target: of a call or a jump out of the function, 0 = none */
        struct str text;
    } * v;
    size_t n, cap;
};

/* Opens the file. d->path is its path. */
static int open_binary(struct disassembly *d, struct err *e)
{
    struct binary_store *files = name_source_files(d->names);
    struct str file = d->q->file;
    int fd = -ENOENT;

    if (files && (binary_store_find(files, d->q->tenant, d->q->build_id, d->path, NULL) == 0 ||
                  binary_store_find(files, BINARY_SHARED, d->q->build_id, d->path, NULL) == 0))
        fd = fd_open_regular(d->path);
    else if (!d->q->tenant[0] && file.n && file.p[0] == '/' && file.n < sizeof d->path) {
        snprintf(d->path, sizeof d->path, "%.*s", STR_FMT(file));
        fd = fd_open_regular(d->path);
    }
    if (fd < 0)
        return err_set(e, -ENOENT, "this server cannot read the binary: wick symbols upload BINARY");
    return fd;
}

/* Reads "machine from end name\n" and the bytes. They come from a confined process and are checked like any untrusted input. */
static int parse_code(struct disassembly *d, struct err *e)
{
    struct str rest = buf_str(&d->raw), head = str_cut(&rest, '\n');
    uint64_t machine;

    if (head.n && head.p[0] == '!')
        return err_set(e, -ENOENT, "%.*s", STR_FMT(str_slice(head, 1, MIN(head.n, 200u))));
    if (str_to_u64(str_cut(&head, ' '), 10, &machine) < 0 || machine > UINT16_MAX ||
        str_to_u64(str_cut(&head, ' '), 16, &d->from) < 0 || str_to_u64(str_cut(&head, ' '), 16, &d->end) < 0 ||
        d->end < d->from || d->end - d->from != rest.n || !rest.n)
        return err_set(e, -EIO, "invalid response of the process that reads binaries");
    d->machine = (unsigned) machine;
    d->name = head;
    d->code = rest;
    return 0;
}

static int read_code(struct disassembly *d, struct err *e)
{
    char address[64], id[BINARY_ID_SIZE];
    const char *const argv[] = {"/proc/self/exe", "symbolize", "--code", address, "--build-id", id, NULL};
    _cleanup_(fd_closep) int fd = open_binary(d, e);
    int r;

    if (fd < 0)
        return fd;
    snprintf(address, sizeof address, "%llx-%llx", (unsigned long long) d->q->address, (unsigned long long) d->q->end);
    snprintf(id, sizeof id, "%.*s", STR_FMT(d->q->build_id));
    r = child_filter(argv, fd, &(struct child_limits){HEAD_MAX + SYMBOL_CODE_MAX, CHILD_LIMIT}, &d->raw, e);
    return r < 0 ? err_prefix(e, r, "reading the binary: ") : parse_code(d, e);
}

static const char *machine_name(unsigned machine)
{
    static const struct {
        unsigned machine;
        const char *name;
    } all[] = {{EM_X86_64, "i386:x86-64"}, {EM_386, "i386"},
               {EM_AARCH64, "aarch64"},    {EM_ARM, "arm"},
               {EM_RISCV, "riscv"},        {EM_PPC64, "powerpc:common64"},
               {EM_S390, "s390:64-bit"}};

    for (size_t i = 0; i < ARRAY_SIZE(all); i++)
        if (all[i].machine == machine)
            return all[i].name;
    return NULL;
}

/* The address that the instruction's text ends with: "call   0x1149" of a raw file. */
static uint64_t target_of(struct str text)
{
    uint32_t i = text.n;
    uint64_t v = 0;

    while (i > 0 && hex_digit(text.p[i - 1]) >= 0)
        i--;
    if (i < 3 || text.p[i - 1] != 'x' || text.p[i - 2] != '0' || (text.p[i - 3] != ' ' && text.p[i - 3] != '\t') ||
        text.n - i > 16)
        return 0;
    for (; i < text.n; i++)
        v = v << 4 | (uint64_t) hex_digit(text.p[i]);
    return v;
}

/* "    1139:\tpush   %rbp" */
static int parse_text(struct disassembly *d)
{
    struct str rest = buf_str(&d->text);
    int r = 0;

    while (r >= 0 && rest.n) {
        struct str line = str_cut(&rest, '\n'), address = str_trim(str_cut(&line, ':'));
        struct instruction i = {.text = str_trim(line)};
        bool jumps;

        if (!i.text.n || str_to_u64(address, 16, &i.address) < 0 || i.address < d->from || i.address >= d->end)
            continue;
        i.target = target_of(i.text);
        jumps = i.text.p[0] == 'c' || i.text.p[0] == 'j' || i.text.p[0] == 'b';
        if (!jumps || (i.target >= d->from && i.target < d->end))
            i.target = 0;
        r = array_push(d->v, d->n, d->cap, INSTRUCTIONS_MAX, i);
    }
    return r;
}

static int run_objdump(struct disassembly *d, struct err *e)
{
    _cleanup_(buf_done) struct buf program = BUF_INIT;
    _cleanup_(fd_closep) int fd = -1;
    char base[64];
    const char *machine = machine_name(d->machine);
    const char *argv[] = {"/proc/self/exe", "symbolize", "--objdump", NULL, "--machine", machine, "--at", base, NULL};
    int r;

    if (!machine)
        return err_set(e, -ENOENT, "no disassembler for this machine's code (ELF machine %u)", d->machine);
    if (!child_find(STR(""), "objdump", &program))
        return err_set(e, -ENOENT, "objdump is not installed on the server (package binutils)");
    argv[3] = program.p;
    snprintf(base, sizeof base, "%llx", (unsigned long long) d->from);
    r = sealed_new("code", &d->code, 1, &fd);
    if (r < 0)
        return r;
    r = child_filter(argv, fd, &(struct child_limits){TEXT_MAX, CHILD_LIMIT}, &d->text, e);
    if (r == -ETIMEDOUT)
        return err_set(e, -ENOENT, "objdump took longer than %lld s on the server",
                       (long long) (CHILD_LIMIT / NS_PER_S));
    if (r == 0)
        r = parse_text(d);
    if (r == -EIO || (r == 0 && !d->n))
        return err_set(e, -ENOENT, "the server's objdump cannot disassemble %s (package binutils-multiarch)", machine);
    return r;
}

/* --- the answer --- */

/* The lines of all instructions, and after them the functions that they call. NULL where nothing is known. */
static struct symbol_answer *look_up(struct disassembly *d)
{
    _cleanup_(mem_freep) uint64_t *v = mem_zalloc_array(2 * d->n + 1, sizeof *v);
    struct symbol_answer *a = NULL;
    struct err unread = {0};

    for (size_t i = 0; v && i < d->n; i++) {
        v[i] = d->v[i].address;
        v[d->n + i] = d->v[i].target;
    }
    if (v)
        name_source_resolve(d->names, d->path,
                            &(struct names_request){d->q->tenant, d->q->build_id, v, (uint32_t) (2 * d->n)}, &a,
                            &unread);
    return a;
}

static const struct symbol_frame *frame_of(const struct symbol_answer *a, size_t i)
{
    return a && i < a->n_addresses && a->first[i] < a->first[i + 1] ? &a->frames[a->first[i]] : NULL;
}

static void put_instruction(struct buf *out, const struct instruction *i, const struct symbol_frame *at,
                            const struct symbol_frame *to)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;

    buf_printf(out, "{\"address\":\"0x%llx\",\"text\":", (unsigned long long) i->address);
    buf_put_str(&text, i->text);
    if (i->target && to && to->function.n)
        buf_printf(&text, " <%.*s>", STR_FMT(to->function));
    json_put_str(out, buf_str(&text));
    if (at && at->file.n) {
        buf_puts(out, ",\"file\":");
        json_put_str(out, at->file);
        buf_printf(out, ",\"line\":%lld", (long long) at->line);
    }
    if (at && at->inlined) {
        buf_puts(out, ",\"inlined\":");
        json_put_str(out, at->function);
    }
    buf_putc(out, '}');
}

static void put_function(struct disassembly *d, struct buf *out)
{
    _cleanup_(symbol_answer_freep) struct symbol_answer *a = look_up(d);

    buf_printf(out,
               "{\"start\":\"0x%llx\",\"end\":\"0x%llx\",\"truncated\":%s,\"symbol\":", (unsigned long long) d->from,
               (unsigned long long) d->end, d->end - d->from == SYMBOL_CODE_MAX ? "true" : "false");
    json_put_str(out, d->name);
    buf_puts(out, ",\"instructions\":[");
    for (size_t i = 0; i < d->n; i++) {
        if (i)
            buf_putc(out, ',');
        put_instruction(out, &d->v[i], frame_of(a, i), frame_of(a, d->n + i));
    }
    buf_puts(out, "]}\n");
}

int serve_code(void *ctx, const struct ui_code *q, struct buf *out, struct err *e)
{
    struct disassembly d = {.names = ctx, .q = q};
    int r = ctx ? 0 : err_set(e, -ENOENT, "this server reads no binaries");

    if (r == 0)
        r = read_code(&d, e);
    if (r == 0)
        r = run_objdump(&d, e);
    if (r == 0)
        put_function(&d, out);
    buf_done(&d.raw);
    buf_done(&d.text);
    mem_free(d.v);
    return r;
}
