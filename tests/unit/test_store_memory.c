/* SPDX-License-Identifier: Apache-2.0 */
/* The suite on engine `memory`. TAP's counters are per file, so the suite is included, not linked. */
#include "store_conformance.c"

int main(void)
{
    struct suite s = {.ops = &store_memory};

    store_conformance(&s);
    return tap_done();
}
