/* SPDX-License-Identifier: Apache-2.0 */
/* Demangles the input in every mode. */
#include "demangle/demangle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str name = {(const char *) data, (uint32_t) size};

    for (int mode = DEMANGLE_SIMPLE; mode <= DEMANGLE_FULL; mode++) {
        _cleanup_(buf_done) struct buf out = BUF_INIT;

        demangle_function(name, (enum demangle_mode) mode, &out);
    }
    return 0;
}
