/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of code objects. A signal handler finds a code object that is being executed, so it is alive: its name, file and
 * first line are copied there and then into tables that were mapped before, without a lock and without calling the
 * interpreter. Later the object may be gone, or another one may have its address; what was copied stays.
 *
 * A frame is a number: the index of (function, file, first line), and the line. Code objects with equal contents share
 * one entry, so a program that compiles the same code again and again does not fill the table.
 */
#ifndef PYTHON_CODE_NAMES_H
#define PYTHON_CODE_NAMES_H

#include "peek.h"
#include "sdk/ext.h"

int code_names_start(void); /* 0, or -1 without memory. Once per process */
/* The frame of the instruction `instr` in the code object at `code`: an address (3.11+), or the offset f_lasti. 0 if it
 * is not a code object, or cannot be read. Async-signal-safe. */
uint64_t code_names_frame(struct peek *p, uint64_t code, uint64_t instr);
/* Function and file of a frame; false if it is none of ours. The texts never change. */
bool code_names_texts(uint64_t frame, const char **ret_function, const char **ret_file);
/* A wick_ext_namer. */
int code_names_namer(uint64_t number, struct wick_ext_frame *ret);
/* Copies a str object as UTF-8, at most size - 1 bytes and a zero; returns the length, 0 if it cannot be read. */
uint32_t code_names_text(struct peek *p, uint64_t object, char *to, uint32_t size);

#endif
