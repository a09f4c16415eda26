/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the input as Go's table of functions and lines, in every version (the first byte says which). */
#include "elf/pclntab.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pclntab t;
    struct pclntab_function fn;
    struct pclntab_frame frames[PCLNTAB_FRAMES_MAX];
    struct str file;
    int32_t line;

    if (pclntab_parse((struct elf_bytes){data, size, 0}, 0x1000, &t, NULL) < 0)
        return 0;
    t.calls = t.data;
    for (uint32_t i = 0; i < MIN(t.n_functions, 1000u); i++)
        if (pclntab_function(&t, i, &fn)) {
            pclntab_line(&t, &fn, fn.entry, &file, &line);
            pclntab_line(&t, &fn, fn.entry + 100, &file, &line);
            pclntab_start_line(&t, &fn);
            pclntab_frames(&t, &fn, fn.entry + 8, frames);
            pclntab_find(&t, fn.entry + 1, &fn);
        }
    return 0;
}
