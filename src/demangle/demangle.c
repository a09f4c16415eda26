/* SPDX-License-Identifier: Apache-2.0 */
/* Recognises the mangling of a name, and names functions the way pprof does. */
#include "demangle/demangle.h"

#include <errno.h>

#include "base/mem.h"
#include "demangle/demangle_cxx.h"
#include "demangle/demangle_rust.h"

/* The part of a legacy Rust name up to its hash's E: what follows a last "E." is a suffix added by LLVM. */
static struct str legacy_rust_part(struct str name)
{
    for (uint32_t i = name.n; i > 2; i--)
        if (name.p[i - 2] == 'E' && name.p[i - 1] == '.')
            return str_slice(name, 0, i - 1);
    return name;
}

static bool looks_legacy_rust(struct str s)
{
    return str_starts(s, STR("_ZN")) && s.n > 23 && s.p[s.n - 1] == 'E' && memcmp(s.p + s.n - 20, "17h", 3) == 0;
}

int demangle(struct str name, unsigned flags, struct buf *out)
{
    if (str_starts(name, STR("_R")))
        return demangle_rust_v0(name, flags, out);
    if (str_starts(name, STR("_ZN"))) {
        struct str part = legacy_rust_part(name);

        if (looks_legacy_rust(part) && demangle_rust_legacy(part, out) == 0)
            return 0;
    }
    return demangle_cxx(name, flags, out);
}

/* A guess whether a name is C++ that is already demangled; Java's "a.<init>" and Go's "p.(*T[...]).M" are not. */
static bool looks_demangled(struct str s)
{
    if (str_find(s, STR(".<")) >= 0 || str_find(s, STR("]).")) >= 0)
        return false;
    for (uint32_t i = 0; i < s.n; i++)
        if (s.p[i] == '<' || s.p[i] == '>' || s.p[i] == '[' || s.p[i] == ']')
            return true;
    return str_find(s, STR("::")) >= 0;
}

/* Removes every outermost open…close from b[from..]; stops at a close without an open, leaving the rest unchanged. */
static void remove_matching(struct buf *b, size_t from, char open, char close)
{
    size_t nesting = 0, first = 0;

    for (size_t i = from; i < b->n; i++) {
        if (b->p[i] == open) {
            if (nesting++ == 0)
                first = i;
        } else if (b->p[i] == close) {
            if (nesting == 0)
                return;
            if (--nesting == 0) {
                memmove(b->p + first, b->p + i + 1, b->n - i - 1);
                b->n -= i + 1 - first;
                i = first - 1; /* may wrap: ++ brings it back */
            }
        }
    }
}

int demangle_function(struct str system_name, enum demangle_mode mode, struct buf *out)
{
    static const unsigned flags_of[] = {
        [DEMANGLE_SIMPLE] = DEMANGLE_NO_PARAMS | DEMANGLE_NO_ENCLOSING_PARAMS | DEMANGLE_NO_TEMPLATE_PARAMS,
        [DEMANGLE_TEMPLATES] = DEMANGLE_NO_PARAMS | DEMANGLE_NO_ENCLOSING_PARAMS,
        [DEMANGLE_FULL] = DEMANGLE_NO_CLONES,
    };
    unsigned flags = flags_of[mode];
    size_t start = out->n;
    int r;

    if (mode != DEMANGLE_NONE) {
        r = demangle(system_name, flags, out);
        if (r == -EINVAL && system_name.n && system_name.p[0] == '_')
            r = demangle(str_slice(system_name, 1, system_name.n), flags, out);
        if (r != -EINVAL)
            return r;
    }
    buf_put_str(out, system_name);
    if (buf_error(out))
        return buf_error(out);
    if (mode == DEMANGLE_NONE || !looks_demangled(system_name))
        return 0;
    if (flags & DEMANGLE_NO_PARAMS)
        remove_matching(out, start, '(', ')');
    if (flags & DEMANGLE_NO_TEMPLATE_PARAMS)
        remove_matching(out, start, '<', '>');
    return 0;
}
