/* SPDX-License-Identifier: Apache-2.0 */
/* A record of the spool (click_parcel.h): the keys of profiles, and the blocks for ClickHouse's tables. fuzz_qlog.c has the log itself. */
#include <stdlib.h>

#include "store/engines/clickhouse/click_parcel.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct store_config config = {.dedup_max = 1000};
    struct intake_limits limits = {0};
    struct click_parcel_reader reader;
    struct click_block block;
    enum click_table table;
    struct str bytes;
    size_t sum = 0;
    int more;

    click_block_init(&block, &config, &limits);
    if (click_parcel_open((struct str){(const char *) data, (uint32_t) size}, &block, &reader) == 0) {
        while ((more = click_parcel_next(&reader, &table, &bytes)) > 0) {
            if (table < 0 || table >= CLICK_TABLES)
                abort();
            for (uint32_t i = 0; i < bytes.n; i++) /* all of it lies in the record */
                sum += (unsigned char) bytes.p[i];
        }
        if (sum > (size_t) UINT8_MAX * size)
            abort();
    }
    click_block_done(&block);
    return 0;
}
