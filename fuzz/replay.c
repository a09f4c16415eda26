/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds every file named on the command line to one fuzz target, as an ordinary test. Speaks TAP. */
#include <stdio.h>

#include "base/buf.h"
#include "base/fd.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        _cleanup_(buf_done) struct buf b = BUF_INIT;
        struct err e;

        if (fd_read_file(argv[i], 256 << 20, &b, &e) < 0) {
            printf("not ok %d - %s\n", i, e.message);
            return 1;
        }
        LLVMFuzzerTestOneInput((const uint8_t *) (b.p ? b.p : ""), b.n);
        printf("ok %d - %s\n", i, argv[i]);
        fflush(stdout);
    }
    printf("1..%d\n", argc - 1);
    return 0;
}
