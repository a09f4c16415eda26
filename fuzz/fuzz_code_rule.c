/* SPDX-License-Identifier: Apache-2.0 */
/* Code of a hostile process: the first two bytes choose an instruction in it. */
#include "unwind/code_rule.h"
#include "unwind/rows.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct unwind_rule rule;
    size_t at;

    if (size < 2)
        return 0;
    at = (size_t) (data[0] | data[1] << 8) % (size - 1);
    code_rule(data + 2, size - 2, at, &rule);
    code_ends_with_call(data + 2, size - 2 < CODE_RULE_CALL ? size - 2 : CODE_RULE_CALL);
    return 0;
}
