/* SPDX-License-Identifier: Apache-2.0 */
/* The description of a backup, which comes from an object store: the paths that it names stay below the directory. */
#include <stdlib.h>

#include "serve/backups.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct backups_one one = {0};
    struct arena a;

    arena_init(&a, 64 << 20);
    if (backups_parse((struct str){(const char *) data, (uint32_t) size}, &a, &one, NULL) == 0)
        for (uint32_t i = 0; i < one.n_files; i++) {
            struct str path = one.files[i].path;

            if (!path.n || path.p[0] == '/' || str_find(path, STR("..")) == 0 || str_find(path, STR("/../")) >= 0 ||
                str_ends(path, STR("/..")))
                abort();
        }
    arena_done(&a);
    return 0;
}
