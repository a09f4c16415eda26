/* SPDX-License-Identifier: Apache-2.0 */
/* What a local port answers when the server looks for programs with /debug/pprof/. */
#include <stdlib.h>
#include <string.h>

#include "host/scrape_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = size < 1 << 20 ? malloc(size + 1) : NULL; /* of its own size, so that a read past the end is seen */
    struct str name;

    if (!copy)
        return 0;
    if (size)
        memcpy(copy, data, size);
    copy[size] = 0;
    name = scrape_config_program(copy, size);
    if (name.n >= 200 || memchr(name.n ? name.p : "", '/', name.n) || !str_is_utf8(name))
        abort();
    free(copy);
    return 0;
}
