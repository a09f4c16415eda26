/* SPDX-License-Identifier: Apache-2.0 */
/* Both directions of the symbolizer's protocol. */
#include "base/mem.h"
#include "model/symbol_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_(symbol_answer_freep) struct symbol_answer *a = NULL;
    _cleanup_(mem_freep) uint64_t *addresses = NULL;
    struct str s = {(const char *) data + (size > 0), (uint32_t) (size - (size > 0))};
    struct symbol_request q;
    struct err e;

    symbol_wire_get_request(s, &q, &addresses);
    symbol_wire_get_answer(s, size ? data[0] : 0, &a, &e);
    return 0;
}
