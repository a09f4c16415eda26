/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules that are inferred from instructions, compared with the call frame information of libraries that this program loads:
 * every row begins at an instruction, and says where the frame ends there.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "tap.h"
#include "unwind/code_rule.h"
#include "unwind/loaded.h"
#include "unwind/table.h"

struct counts {
    uint64_t right, wrong, none, missed, instructions;
};

static struct counts found;

/* The same in every build of this test: neither the program itself nor a sanitizer's runtime is among them. */
static const char *const libraries[] = {"libc.so.6", "libcrypto.so.3", "libm.so.6", "libstdc++.so.6"};

static bool is_chosen(const char *path)
{
    const char *slash = strrchr(path, '/');

    for (size_t i = 0; i < ARRAY_SIZE(libraries); i++)
        if (strcmp(slash ? slash + 1 : path, libraries[i]) == 0)
            return true;
    return false;
}

/* Whether both rules lead to the same caller. A saved register counts only if both say so: code without call frame
 * information below may have it changed and restored later. */
static bool same(const struct unwind_rule *a, const struct unwind_rule *b)
{
    if (a->cfa != b->cfa || a->cfa_off != b->cfa_off || a->ra != b->ra)
        return false;
    if (a->cfa == UNWIND_CFA_REG && a->reg != b->reg)
        return false;
    return !(a->flags & b->flags & UNWIND_FP_SAVED) || (a->flags & UNWIND_FP_AT_FP) != (b->flags & UNWIND_FP_AT_FP) ||
           a->fp == b->fp;
}

static void compare(const struct dl_phdr_info *info, const struct unwind_table *t, uint64_t address, uint64_t lo,
                    uint64_t hi)
{
    const struct unwind_rule *want = unwind_find(t, address);
    uint64_t pc = info->dlpi_addr + address, start = MAX(lo, pc - MIN(pc, 4096u)), end = MIN(hi, pc + 8192);
    struct unwind_rule got;

    if (!want || (want->cfa != UNWIND_CFA_SP && want->cfa != UNWIND_CFA_FP) || pc < lo || pc >= hi)
        return;
    if (!code_rule((const uint8_t *) start, end - start, pc - start, &got)) // NOLINT(performance-no-int-to-ptr)
        found.none++;
    else if (same(&got, want))
        found.right++;
    else
        found.wrong++;
}

/* From each row on, instructions follow each other up to the next one. */
static void measure(const struct dl_phdr_info *info, uint64_t from, uint64_t to)
{
    const uint8_t *code = (const uint8_t *) (info->dlpi_addr + from); // NOLINT(performance-no-int-to-ptr)
    size_t at = 0, length;

    while (at < to - from && (length = code_length(code + at, to - from - at)) > 0) {
        at += length;
        found.instructions++;
    }
    found.missed += at != to - from;
}

static int each_module(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct unwind_table *t;
    struct cfi_section s;
    uint64_t lo, hi;

    (void) size;
    (void) arg;
    if (!is_chosen(info->dlpi_name) || !loaded_text(info, &lo, &hi) || !loaded_eh_frame(info, &s) ||
        unwind_table_new(&s, 1, CFI_X86_64, &t) < 0)
        return 0;
    for (uint32_t p = 0; p < t->n_pages; p++)
        for (uint32_t i = 0; i < t->pages[p].n; i++) {
            const struct unwind_row *row = &t->rows[t->pages[p].row + i];
            uint64_t base = (t->first_page + p) << UNWIND_PAGE_BITS;

            if (i == 0 || !row->rule)
                continue; /* the first one may begin in the middle of an instruction */
            compare(info, t, base + row->pc, lo, hi);
            if (i + 1 < t->pages[p].n && info->dlpi_addr + base + row[1].pc <= hi)
                measure(info, base + row->pc, base + row[1].pc);
        }
    unwind_table_free(t);
    return 0;
}

static void test_as_call_frame_information(void)
{
    void *loaded[ARRAY_SIZE(libraries)];

    for (size_t i = 0; i < ARRAY_SIZE(libraries); i++)
        loaded[i] = dlopen(libraries[i], RTLD_NOW);
    dl_iterate_phdr(each_module, NULL);
    printf("# %" PRIu64 " rows: %" PRIu64 " right, %" PRIu64 " wrong, %" PRIu64 " not known; %" PRIu64
           " runs of %" PRIu64 " instructions were missed\n",
           found.right + found.wrong + found.none, found.right, found.wrong, found.none, found.missed,
           found.instructions);
    ok(found.right > 10000);
    ok(found.wrong * 200 < found.right);
    ok(found.none * 5 < found.right);
    ok(found.missed * 1000 < found.instructions);
    for (size_t i = 0; i < ARRAY_SIZE(libraries); i++)
        if (loaded[i])
            dlclose(loaded[i]);
}

static void test_calls(void)
{
    static const struct {
        uint8_t code[CODE_RULE_CALL];
        bool is_call;
    } cases[] = {
        {{0x90, 0x90, 0xe8, 1, 2, 3, 4}, true},              /* call rel32 */
        {{0x90, 0x90, 0x90, 0x90, 0x90, 0xff, 0xd0}, true},  /* call *%rax */
        {{0x90, 0x90, 0x90, 0x90, 0x41, 0xff, 0xd4}, true},  /* call *%r12 */
        {{0x90, 0x90, 0x90, 0x90, 0xff, 0x53, 0x18}, true},  /* call *0x18(%rbx) */
        {{0x90, 0xff, 0x15, 1, 2, 3, 4}, true},              /* call *rel32(%rip) */
        {{0xff, 0x94, 0x24, 1, 2, 3, 4}, true},              /* call *disp32(%rsp) */
        {{0x90, 0x90, 0x90, 0x90, 0x90, 0xff, 0xe0}, false}, /* jmp *%rax */
        {{0x90, 0x90, 0xe9, 1, 2, 3, 4}, false},             /* jmp rel32 */
        {{0x90, 0x90, 0x90, 0x90, 0xff, 0xd0, 0x90}, false}, /* a call, and more */
    };
    struct unwind_rule rule;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (code_ends_with_call(cases[i].code, CODE_RULE_CALL) != cases[i].is_call)
            tap_fail("case %zu", i);
    ok(!code_ends_with_call(cases[0].code, 0));
    ok(!code_rule((const uint8_t *) "\xc3", 1, 1, &rule));                         /* behind the end */
    ok(!code_rule((const uint8_t *) "\xeb\xfe", 2, 0, &rule));                     /* jumps to itself */
    ok(!code_rule((const uint8_t *) "\xff\xe0\xc3\x90\x90\x90\x90", 7, 0, &rule)); /* jmp *%rax */
}

int main(void)
{
    tap_run(test_calls);
#if defined(__x86_64__)
    tap_run(test_as_call_frame_information);
#else
    tap_skip("test_as_call_frame_information", "the libraries are not of x86-64");
#endif
    return tap_done();
}
