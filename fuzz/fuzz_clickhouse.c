/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a ClickHouse server answers: rows of the dictionary tables, rows of samples and profiles, and the encoded bodies in
 * them, up to the batch that is made of them.
 *
 * Input: flags (u16: which columns are wanted), then for each dictionary table a length (u16) and that many bytes, then rows of
 * profiles (length u16), then rows of samples.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "model/builder.h"
#include "store/engines/clickhouse/click_load.h"
#include "batch_validate.h"

enum { ROWS = 256 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct str take(struct cursor *in)
{
    const unsigned char *p = get_raw(in, 2);
    uint32_t n = p ? load_u16(p) : 0;

    p = get_raw(in, MIN(n, (uint32_t) (in->end - in->p)));
    return (struct str){(const char *) p, p ? (uint32_t) (in->p - p) : 0};
}

static size_t read_all(struct str bytes, const struct click_want *want, bool typed, bool profiles,
                       struct click_row *rows, size_t n)
{
    struct cursor in = cursor_of(bytes.p, bytes.n);
    bool empty = profiles && typed && !want->time && !want->series && !want->meta && !want->step;

    while (in.p < in.end && n < ROWS && !empty) {
        if (profiles)
            click_read_profile(&in, want, typed, &rows[n]);
        else
            click_read_sample(&in, want, typed, &rows[n]);
        if (in.bad)
            break;
        n++;
    }
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct click click = {0};
    struct store_config config = {0};
    struct store_query q = {.tenant = "", .n_columns = 1};
    struct click_load l = {.c = &click, .q = &q, .rest = q};
    struct click_row rows[ROWS];
    struct cursor in = cursor_of(data, size);
    const unsigned char *flags = get_raw(&in, 2);
    uint16_t f = flags ? load_u16(flags) : 0;
    struct click_want want = {.stack = f & 1,
                              .series = f & 2,
                              .meta = f & 4,
                              .attrs = f & 8,
                              .link = f & 16,
                              .ts = f & 32,
                              .time = f & 64,
                              .step = f & 128 ? 1000 : 0};
    bool typed = f & 256;
    struct store *memory = NULL;
    size_t n = 0;

    if (store_open(&store_memory, &config, &memory, NULL) < 0 || click_cache_new(&l.cache) < 0 ||
        builder_new(&(struct builder_limits){.memory = 64 << 20}, &l.builder) < 0)
        abort();
    l.memory = container_of(memory, struct memory_store, store);
    l.columns[0].match.any_type = !typed;
    l.columns[0].type = (struct type){.name = STR("cpu"), .unit = STR("nanoseconds")};
    for (int kind = 0; kind < CLICK_SAMPLES; kind++)
        click_cache_parse(l.cache, "", kind, take(&in));
    n = read_all(take(&in), &want, typed, true, rows, n);
    n = read_all((struct str){(const char *) in.p, (uint32_t) (in.end - in.p)}, &want, typed, false, rows, n);
    qsort(rows, n, sizeof *rows, click_row_cmp);
    if (click_emit_rows(&l, rows, n, &want, 0, -1) == 0 && click_load_finish(&l, NULL) == 0 && l.memory->n) {
        struct err e = {0};

        if (batch_validate(l.memory->items[0].batch, &e) < 0)
            abort();
    }
    click_load_done(&l);
    return 0;
}
