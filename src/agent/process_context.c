/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and decodes the OTEL_CTX mapping of a process. */
#include "agent/process_context.h"

#include <errno.h>

#include "codec/otlp_value.h"

struct context_header {
    char signature[8];
    uint32_t version, size;
    uint64_t published_ns, payload;
};

enum { ATTEMPTS = 3 };

int process_context_decode(struct str payload, struct arena *a, struct process_context *ret)
{
    const uint8_t *p = str_bytes(payload), *end = p + payload.n;
    static const struct str none[1];
    struct wire_err w = {0};
    struct otlp_values d = {.arena = a, .strings = none, .string_table = {.n = 1, .name = "no table"}, .w = &w};
    int r;

    ret->resource = ret->attributes = (struct kvs){0};
    r = otlp_kvs_decode(&d, p, end, 2, "attributes", &ret->attributes);
    while (r == 0 && p < end) {
        struct wire_field f;

        p = wire_next(p, end, &f);
        if (!p)
            return -EBADMSG;
        if (f.tag == WIRE_TAG(1, WIRE_LEN))
            r = otlp_kvs_decode(&d, f.data, p, 1, "resource", &ret->resource);
    }
    return r == -EINVAL ? -EBADMSG : r;
}

const struct proc_map *process_context_find(const struct proc_maps *maps)
{
    static const char *const names[] = {"/memfd:OTEL_CTX", "[anon_shmem:OTEL_CTX]", "[anon:OTEL_CTX]"};

    for (uint32_t i = 0; i < maps->n; i++)
        for (size_t k = 0; k < ARRAY_SIZE(names); k++)
            if (str_is(maps->v[i].path, names[k]) && maps->v[i].readable && !maps->v[i].executable)
                return &maps->v[i];
    return NULL;
}

int process_context_time(const struct proc_memory *m, uint64_t address, uint64_t *ret)
{
    struct context_header h;
    int r = proc_memory_read(m, address, &h, sizeof h);

    if (r < 0)
        return r;
    if (memcmp(h.signature, "OTEL_CTX", 8) != 0)
        return -EBADMSG;
    *ret = h.published_ns;
    return 0;
}

static int read_once(const struct proc_memory *m, uint64_t address, struct arena *a, struct process_context *ret)
{
    struct context_header h, again;
    char *payload;
    int r = proc_memory_read(m, address, &h, sizeof h);

    if (r < 0)
        return r;
    if (memcmp(h.signature, "OTEL_CTX", 8) != 0 || h.version != 2 || !h.size || h.size > PROCESS_CONTEXT_MAX)
        return -EBADMSG;
    if (!h.published_ns)
        return -EAGAIN;
    payload = arena_alloc(a, h.size);
    if (!payload)
        return -ENOMEM;
    r = proc_memory_read(m, h.payload, payload, h.size);
    if (r == 0)
        r = proc_memory_read(m, address, &again, sizeof again);
    if (r < 0)
        return r;
    if (memcmp(&h, &again, sizeof h) != 0)
        return -EAGAIN;
    ret->published_ns = h.published_ns;
    return process_context_decode((struct str){payload, h.size}, a, ret);
}

int process_context_read(const struct proc_maps *maps, const struct proc_memory *m, struct arena *a,
                         struct process_context *ret)
{
    const struct proc_map *map = process_context_find(maps);
    int r = -EAGAIN;

    if (!map)
        return -ENOENT;
    for (int i = 0; i < ATTEMPTS && r == -EAGAIN; i++)
        r = read_once(m, map->start, a, ret);
    return r;
}
