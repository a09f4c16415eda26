/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The unwind rule at an instruction of hand-written code without call frame information, from the instructions that follow: what they
 * pop and add to the stack pointer before they return says where the return address is, and where fp and rbx were saved. Only for
 * code of x86-64. The result is inferred: it is to be used only if the return address that it leads to has a call before it.
 */
#ifndef UNWIND_CODE_RULE_H
#define UNWIND_CODE_RULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CODE_RULE_WINDOW = 16384, /* bytes of code around the instruction that are looked at, at most */
    CODE_RULE_CALL = 7,       /* bytes of the longest call */
};

struct unwind_rule;
/* The rule in force at code + at, where an instruction begins. False when the n bytes of code, at most CODE_RULE_WINDOW, do not
 * show it. Nothing is allocated. */
bool code_rule(const uint8_t *code, size_t n, size_t at, struct unwind_rule *ret);
/* True if the n bytes, at most CODE_RULE_CALL, end with a call. */
bool code_ends_with_call(const uint8_t *code, size_t n);
/* The length of the instruction at the beginning of code; 0: invalid, or longer than n. */
size_t code_length(const uint8_t *code, size_t n);

#endif
