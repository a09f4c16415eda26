/* SPDX-License-Identifier: Apache-2.0 */
/* Formats that are known and not read (input_refuse.h). */
#include "codec/input_refuse.h"

static const struct {
    struct str start;
    const char *message;
} known[] = {
    {STR("memray"), "memray's own format is not read; convert it with `memray transform gprof2dot -o FILE.json`"},
    {STR("\x04\x22\x4d\x18"), "compressed with LZ4, which is not supported; decompress it with `lz4 -d`"},
    {STR("Nettrace"), "a .NET trace is not read; convert it with `dotnet-trace convert --format speedscope`"},
    {STR("PK\3\4"), "a zip archive is not read; unpack it first"},
    {STR("\xfd"
         "7zXZ"),
     "compressed with xz, which is not supported; decompress it with `xz -d`"},
    {STR("SQLite format 3"), "an SQLite database is not read; export the profile to a file first"},
    {STR("\x7f"
         "ELF"),
     "an executable or core file, not a profile"},
    {STR("<!DOCTYPE"), "an HTML page, not a profile"},
    {STR("<!doctype"), "an HTML page, not a profile"},
    {STR("<html"), "an HTML page, not a profile"},
    {STR("# callgrind format"), "callgrind's files are written, not read"},
};

const char *input_refuse(struct str data)
{
    struct str head = str_slice(data, 0, 64);

    if (str_starts(data, known[1].start) && str_find(head, known[0].start) > 0)
        return known[0].message; /* memray compresses its files with LZ4 */
    for (size_t i = 0; i < ARRAY_SIZE(known); i++)
        if (str_starts(data, known[i].start))
            return known[i].message;
    head = str_trim(head);
    if (head.n && (head.p[0] == '{' || head.p[0] == '['))
        return "JSON of none of the formats that wick reads: OTLP, .cpuprofile, .heapprofile, Chrome trace with samples, "
               "speedscope, Firefox Profiler, gprof2dot";
    return NULL;
}
