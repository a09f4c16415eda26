/* SPDX-License-Identifier: Apache-2.0 */
/* The definitions of the tables, and the Native format; see click_tables.h. */
#include "store/engines/clickhouse/click_tables.h"

#include <string.h>

#define DAY "intDiv(time, 86400000000000)"
#define LOW "LowCardinality(String) CODEC(ZSTD(1))"
#define PACKED(type) type " CODEC(ZSTD(1))"
#define RISING(type) type " CODEC(Delta, ZSTD(1))"

/* Times within a profile take few of their 64 bits, and none where no sample has one. Values are often multiples of a period. */
#define FEW_BITS(type) type " CODEC(T64, ZSTD(1))"
#define MULTIPLES(type) type " CODEC(GCD, T64, ZSTD(1))"

/* Numbers of which there are few different ones in an hour, and which come in no order: starts of profiles within a stack, and sets of attributes.
 * Differences of the starts would be small only where all senders export at regular times. */
#define REPEATED(type) "LowCardinality(" type ") CODEC(ZSTD(3))"

/* Keys recognise a profile that is sent again within a day; they are random, and need more bytes than the rest of the row. */
#define KEY_TTL " TTL toDateTime(intDiv(received, 1000000000)) + INTERVAL 2 DAY"

/* "linked": the sample belongs to a span; `links` says to which. Trace and span IDs are random: in `samples`, they would need more bytes than
 * everything else. */
#define SAMPLE_COLUMNS(stack_codec, ...)                                                                      \
    {"tenant", "String", LOW, NULL}, {"service", "String", LOW, NULL}, {"type", "String", LOW, NULL},         \
        {"time", "Int64", RISING("Int64"), REPEATED("Int64")},                                                \
        {"stack", "FixedString(16)", "FixedString(16) CODEC(" stack_codec ")", NULL},                         \
        {"series", "UInt64", PACKED("UInt64"), NULL}, {"meta", "UInt64", PACKED("UInt64"), NULL},             \
        {"seq", "UInt16", PACKED("UInt16"), NULL}, {"attrs", "UInt64", PACKED("UInt64"), REPEATED("UInt64")}, \
        __VA_ARGS__, {"ts", "Int64", FEW_BITS("Int64"), NULL},                                                \
        {"value", "Int64", PACKED("Int64"), MULTIPLES("Int64")},                                              \
    {                                                                                                         \
        0                                                                                                     \
    }

const struct click_table_def click_tables[CLICK_TABLES] = {
    [CLICK_SERIES] = {.name = "series",
                      .columns = {{"tenant", "String", NULL, NULL},
                                  {"week", "UInt32", NULL, NULL},
                                  {"id", "UInt64", NULL, NULL},
                                  {"service", "String", NULL, NULL},
                                  {"names", "Array(String)", NULL, NULL},
                                  {"label_values", "Array(String)", NULL, NULL},
                                  {0}},
                      .engine = "ReplacingMergeTree",
                      .arguments = "",
                      .partition = "week",
                      .order = "tenant, id",
                      .shard = "cityHash64(tenant, id)"},
    /* Ordered from the root on, so that neighbours begin alike: their random bytes are stored once. IDs are looked up by the thousand, for which
     * an order by ID would not help. */
    [CLICK_STACKS] = {.name = "stacks",
                      .columns = {{"tenant", "String", NULL, NULL},
                                  {"week", "UInt32", NULL, NULL},
                                  {"id", "FixedString(16)", NULL, NULL},
                                  {"locations", "Array(FixedString(16))", PACKED("Array(FixedString(16))"), NULL},
                                  {0}},
                      .engine = "ReplacingMergeTree",
                      .arguments = "",
                      .partition = "week",
                      .order = "tenant, arrayReverse(locations)",
                      .shard = "cityHash64(tenant, id)"},
    [CLICK_LOCATIONS] = {.name = "locations",
                         .columns = {{"tenant", "String", NULL, NULL},
                                     {"week", "UInt32", NULL, NULL},
                                     {"id", "FixedString(16)", NULL, NULL},
                                     {"version", "UInt64", PACKED("UInt64"), NULL},
                                     {"build_id", "String", PACKED("String"), NULL},
                                     {"address", "UInt64", PACKED("UInt64"), NULL},
                                     {"functions", "Array(String)", PACKED("Array(String)"), NULL},
                                     {"head", "String", PACKED("String"), NULL},
                                     {"lines", "String", PACKED("String"), NULL},
                                     {0}},
                         .engine = "ReplacingMergeTree",
                         .arguments = "version",
                         .partition = "week",
                         .order = "tenant, id",
                         .shard = "cityHash64(tenant, id)"},
    [CLICK_METAS] = {.name = "metas",
                     .columns = {{"tenant", "String", NULL, NULL},
                                 {"week", "UInt32", NULL, NULL},
                                 {"id", "UInt64", NULL, NULL},
                                 {"body", "String", PACKED("String"), NULL},
                                 {0}},
                     .engine = "ReplacingMergeTree",
                     .arguments = "",
                     .partition = "week",
                     .order = "tenant, id",
                     .shard = "cityHash64(tenant, id)"},
    [CLICK_ATTRS] = {.name = "attrs",
                     .columns = {{"tenant", "String", NULL, NULL},
                                 {"week", "UInt32", NULL, NULL},
                                 {"id", "UInt64", NULL, NULL},
                                 {"body", "String", PACKED("String"), NULL},
                                 {0}},
                     .engine = "ReplacingMergeTree",
                     .arguments = "",
                     .partition = "week",
                     .order = "tenant, id",
                     .shard = "cityHash64(tenant, id)"},
    [CLICK_SAMPLES] = {.name = "samples",
                       .columns = {SAMPLE_COLUMNS("ZSTD(1)", {"linked", "UInt8", PACKED("UInt8"), NULL})},
                       .engine = "MergeTree",
                       .arguments = "",
                       .partition = DAY,
                       .order = "tenant, service, type, intDiv(time, 3600000000000), stack, time",
                       .shard = "cityHash64(tenant, service)"},
    [CLICK_LINKS] = {.name = "links",
                     .columns = {SAMPLE_COLUMNS("ZSTD(3)",
                                                {"trace", "FixedString(16)", PACKED("FixedString(16)"), NULL},
                                                {"span", "FixedString(8)", PACKED("FixedString(8)"), NULL})},
                     .engine = "MergeTree",
                     .arguments = "",
                     .partition = DAY,
                     .order = "tenant, trace, span, time",
                     .shard = "cityHash64(tenant, service)"},
    [CLICK_PROFILES] = {.name = "profiles",
                        .columns = {{"tenant", "String", LOW, NULL},
                                    {"service", "String", LOW, NULL},
                                    {"type", "String", LOW, NULL},
                                    {"unit", "String", LOW, NULL},
                                    {"time", "Int64", RISING("Int64"), NULL},
                                    {"duration", "Int64", PACKED("Int64"), NULL},
                                    {"series", "UInt64", PACKED("UInt64"), NULL},
                                    {"meta", "UInt64", PACKED("UInt64"), NULL},
                                    {"seq", "UInt16", PACKED("UInt16"), NULL},
                                    {"joined", "UInt32", PACKED("UInt32"), NULL},
                                    {"id", "FixedString(16)", PACKED("FixedString(16)"), NULL},
                                    {"value", "Int64", PACKED("Int64"), NULL},
                                    {"samples", "UInt32", FEW_BITS("UInt32"), NULL},
                                    {"key_start", "Int64", RISING("Int64") KEY_TTL, NULL},
                                    {"key", "UInt64", PACKED("UInt64") KEY_TTL, NULL},
                                    {"received", "Int64", RISING("Int64"), NULL},
                                    {0}},
                        .engine = "MergeTree",
                        .arguments = "",
                        .partition = DAY,
                        .order = "tenant, service, type, time",
                        .shard = "cityHash64(tenant, service)"},
};

void click_rows_init(struct click_rows *r, enum click_table t)
{
    *r = (struct click_rows){.def = &click_tables[t]};
}

void click_rows_done(struct click_rows *r)
{
    for (int i = 0; i < CLICK_COLUMNS_MAX; i++) {
        buf_done(&r->columns[i]);
        buf_done(&r->offsets[i]);
    }
}

void click_rows_reset(struct click_rows *r)
{
    for (int i = 0; i < CLICK_COLUMNS_MAX; i++) {
        buf_reset(&r->columns[i]);
        buf_reset(&r->offsets[i]);
        r->elements[i] = 0;
    }
    r->n = r->at = 0;
}

int click_rows_encode(const struct click_rows *r, struct buf *out)
{
    uint32_t n = 0;

    while (r->def->columns[n].name)
        n++;
    put_varint(out, n);
    put_varint(out, r->n);
    for (uint32_t i = 0; i < n; i++) {
        const struct click_column *c = &r->def->columns[i];

        put_bytes(out, c->name, strlen(c->name));
        put_bytes(out, c->type, strlen(c->type));
        buf_put_buf(out, &r->offsets[i]);
        buf_put_buf(out, &r->columns[i]);
    }
    return buf_error(out);
}
