/* SPDX-License-Identifier: Apache-2.0 */
/* Labels as text for comparisons in tests: {a="b",c="d"}. */
#ifndef LABELS_TEXT_H
#define LABELS_TEXT_H

#include "base/buf.h"
#include "model/labels.h"

static inline void labels_print(struct buf *out, const struct labels *l)
{
    buf_putc(out, '{');
    for (uint32_t i = 0; i < l->n; i++)
        buf_printf(out, "%s%.*s=\"%.*s\"", i ? "," : "", STR_FMT(l->v[i].name), STR_FMT(l->v[i].value));
    buf_putc(out, '}');
}

#endif
