/* SPDX-License-Identifier: Apache-2.0 */
/* Names of Java classes (java_name.h). */
#include "model/java_name.h"

#include <ctype.h>
#include <string.h>

uint32_t java_generated_prefix(struct str name)
{
    static const struct str accessor = {"jdk/internal/reflect/GeneratedMethodAccessor", 44};
    ptrdiff_t lambda = str_find(name, STR("$$Lambda")), hidden = str_find(name, STR("+0x"));
    uint32_t from = 0;

    if (lambda > 0 && (size_t) lambda + 8 < name.n)
        from = (uint32_t) lambda + 8;
    else if (hidden > 0)
        from = (uint32_t) hidden;
    else if (name.n > accessor.n && str_starts(name, accessor))
        from = accessor.n;
    for (uint32_t i = from; from && i < name.n; i++)
        if (!isxdigit((unsigned char) name.p[i]) && !strchr("$./x+", name.p[i]))
            return 0;
    return from;
}

struct str java_class_name(struct str internal, struct arena *a)
{
    uint32_t prefix = java_generated_prefix(internal);
    struct str keep = prefix ? str_slice(internal, 0, prefix) : internal;
    char *text = arena_printf(a, "%.*s%s", STR_FMT(keep), prefix ? "_" : "");

    for (char *p = text; p && *p; p++)
        if (*p == '/')
            *p = '.';
    return str_from(text);
}
