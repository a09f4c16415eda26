/* SPDX-License-Identifier: Apache-2.0 */
/* Reads names, one a line, and writes each demangled (or as it is): for comparison with tests/go/demangle. */
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "demangle/demangle.h"

int main(int argc, char **argv)
{
    _cleanup_(buf_done) struct buf in = BUF_INIT, out = BUF_INIT;
    const char *mode = argc > 1 ? argv[1] : "simple";
    unsigned flags = strcmp(mode, "clones") == 0 ? 0
                     : strcmp(mode, "full") == 0 ? DEMANGLE_NO_CLONES
                     : strcmp(mode, "templates") == 0
                         ? DEMANGLE_NO_PARAMS | DEMANGLE_NO_ENCLOSING_PARAMS
                         : DEMANGLE_NO_PARAMS | DEMANGLE_NO_ENCLOSING_PARAMS | DEMANGLE_NO_TEMPLATE_PARAMS;
    struct str rest;

    if (fd_read_all(0, 1u << 30, &in) < 0)
        return 1;
    for (rest = buf_str(&in); rest.n;) {
        struct str name = str_cut(&rest, '\n');

        buf_reset(&out);
        if (demangle(name, flags, &out) < 0)
            buf_put_str(&out, name);
        printf("%.*s\n", STR_FMT(buf_str(&out)));
    }
    return 0;
}
