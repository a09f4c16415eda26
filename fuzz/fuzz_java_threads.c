/* SPDX-License-Identifier: Apache-2.0 */
/* What a hostile Java program prints when it is asked for its threads. */
#include "agent/dump/dump.h"
#include "agent/dump/dump_java.h"
#include "base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dump s = {.pid = 1};

    arena_init(&s.arena, 16 << 20);
    dump_java_parse(&s, (struct str){(const char *) data, (uint32_t) size});
    mem_free(s.tasks);
    arena_done(&s.arena);
    return 0;
}
