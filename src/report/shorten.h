/* SPDX-License-Identifier: Apache-2.0 */
/* Short function names for boxes: packages, namespaces and module versions are removed, class and function are kept. */
#ifndef REPORT_SHORTEN_H
#define REPORT_SHORTEN_H

#include "base/arena.h"
#include "base/regex.h"

struct shortener {
    struct regex *version, *go, *java, *cpp;
};

int shortener_init(struct shortener *s);
void shortener_done(struct shortener *s);
/* The short form: a part of name, or made in the arena. */
struct str shorten_name(const struct shortener *s, struct str name, struct arena *a);

#endif
