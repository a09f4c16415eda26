/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hand_written WAY SECONDS: spins in assembly without call frame information, as codecs and crypto have it: without a frame; with
 * saved registers, rbp among them, which is then used as any other; on an aligned stack; with a frame pointer; in a function that only
 * assembly calls; behind a jump that no reader of the code can follow. Each spins for about a millisecond per call.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FUNCTION(name, body) \
    ".globl " #name "\n.type " #name ", @function\n" #name ":\n" body "\n.size " #name ", . - " #name "\n"
#define SPIN(counter) "mov $1000000, " counter "\n1: vpxor %xmm1, %xmm1, %xmm1\ndec " counter "\njnz 1b\n"

__asm__(
    ".text\n.p2align 4\n" FUNCTION(asm_bare, SPIN("%rcx") "vzeroupper\nret") FUNCTION(
        asm_saves, "push %rbx\npush %rbp\npush %r12\nsub $0x148, %rsp\nmov %rdi, 0x10(%rsp)\nxor %ebx, %ebx\n" SPIN(
                       "%rbp") "add $0x148, %rsp\npop %r12\npop %rbp\npop %rbx\nret")
        FUNCTION(asm_aligned,
                 "push %rbx\npush %rbp\nmov %rsp, %rax\nsub $0x180, %rsp\nand $-64, %rsp\nmov %rax, 0x178(%rsp)\n" SPIN(
                     "%rbp") "mov 0x178(%rsp), %rsp\npop %rbp\npop %rbx\nret")
            FUNCTION(asm_framed,
                     "push %rbp\nmov %rsp, %rbp\nsub $0x40, %rsp\nand $-32, %rsp\n" SPIN("%rcx") "leave\nret")
                FUNCTION(asm_inner, "sub $0x28, %rsp\n" SPIN("%rcx") "add $0x28, %rsp\nret")
                    FUNCTION(asm_calls, "push %rbp\nxor %ebp, %ebp\ncall asm_inner\npop %rbp\nret")
                        FUNCTION(asm_hidden, "push %rbx\npush %rbp\nlea 2f(%rip), %rdx\nxor %ebp, %ebp\n" SPIN(
                                                 "%rbx") "jmp *%rdx\nud2\n2:\npop %rbp\npop %rbx\nret"));

extern void asm_bare(long), asm_saves(long), asm_aligned(long), asm_framed(long), asm_calls(long), asm_hidden(long);

static const struct {
    const char *name;
    void (*run)(long);
} ways[] = {{"bare", asm_bare},     {"saves", asm_saves}, {"aligned", asm_aligned},
            {"framed", asm_framed}, {"calls", asm_calls}, {"hidden", asm_hidden}};

/* Leaves return addresses below its own frame, where the assembly has its own. */
__attribute__((noinline)) static long stale(long n)
{
    volatile long room[8] = {n};

    return n ? stale(n - 1) + room[n & 7] : 0;
}

__attribute__((noinline)) static long call_asm(void (*run)(long), long n)
{
    n += stale(12);
    run(n);
    return n + 1;
}

__attribute__((noinline)) static long repeat(void (*run)(long), double seconds)
{
    double end = (double) clock() + seconds * CLOCKS_PER_SEC;
    long n = 0;

    while ((double) clock() < end)
        n += call_asm(run, n);
    return n;
}

int main(int argc, char **argv)
{
    for (size_t i = 0; argc > 2 && i < sizeof ways / sizeof *ways; i++)
        if (strcmp(ways[i].name, argv[1]) == 0)
            return repeat(ways[i].run, strtod(argv[2], NULL)) == 0;
    return 2;
}
