/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON formats of other tools: what decodes is a valid batch within the limit. */
#include <stdlib.h>

#include "codec/jsonfile/json_file.h"
#include "model/batch.h"
#include "batch_validate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *) data, (uint32_t) size};
    enum json_file_form form = json_file_detect(text);
    _cleanup_(batch_unrefp) struct batch *b = NULL;
    size_t memory = 16 << 20;
    struct err e = {0};

    if (form && json_file_decode(text, form, memory, true, &b, &e) == 0 &&
        (batch_validate(b, &e) < 0 || batch_memory(b) > memory))
        abort();
    return 0;
}
