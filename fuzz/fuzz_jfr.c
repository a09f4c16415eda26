/* SPDX-License-Identifier: Apache-2.0 */
/* JFR recordings and the labels that are sent with them: what decodes is a valid batch within the limit. */
#include <stdlib.h>

#include "codec/jfr/jfr.h"
#include "model/batch.h"
#include "batch_validate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *) data, (uint32_t) size};
    struct jfr_options o = {.memory = 16 << 20, .times = true};
    _cleanup_(batch_unrefp) struct batch *b = NULL, *labelled = NULL;
    struct err e = {0};

    if (jfr_decode(text, &o, &b, &e) == 0 && (batch_validate(b, &e) < 0 || batch_memory(b) > o.memory))
        abort();
    if (size < 2)
        return 0;
    /* the labels first, their length in two bytes */
    o.labels = str_slice(text, 2, 2 + MIN(size - 2, (size_t) (data[0] | data[1] << 8)));
    text = str_slice(text, 2 + o.labels.n, text.n);
    if (jfr_decode(text, &o, &labelled, &e) == 0 && batch_validate(labelled, &e) < 0)
        abort();
    return 0;
}
