/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes OTLP profiles in JSON into a batch: protobuf's JSON mapping with OTLP's changes. Only lowerCamelCase keys are
 * recognized; 64-bit numbers are strings or numbers; trace, span and profile ids are hex (base64 is accepted too),
 * other bytes base64; unknown keys are ignored; null means absent. See otlp_json.h for the order of reading and
 * otlp_json_generation.c for requests of older generations.
 */
#include "base/mem.h"
#include "codec/otlp.h"
#include "codec/otlp_group.h"
#include "codec/otlp_json.h"
#include "codec/otlp_scan.h"

/* --- samples --- */

static struct run read_values(struct otlp_json *d)
{
    struct batch *b = d->b;
    struct run run = {b->n_values, 0};

    if (!otlp_json_array(d))
        return (struct run){0};
    while (json_next_item(&d->r)) {
        int64_t v = json_i64(&d->r), *slot;

        slot = otlp_json_add(d, ARRAY_VALUES, &b->values, &b->n_values, sizeof *slot);
        if (!slot)
            break;
        *slot = v;
        run.n++;
    }
    return run.n ? run : (struct run){0};
}

static struct run read_timestamps(struct otlp_json *d)
{
    struct batch *b = d->b;
    struct run run = {b->n_timestamps, 0};

    if (!otlp_json_array(d))
        return (struct run){0};
    while (json_next_item(&d->r)) {
        uint64_t v = json_u64(&d->r), *slot;

        slot = otlp_json_add(d, ARRAY_TIMESTAMPS, &b->timestamps, &b->n_timestamps, sizeof *slot);
        if (!slot)
            break;
        *slot = v;
        run.n++;
    }
    return run.n ? run : (struct run){0};
}

static int read_sample(struct otlp_json *d, struct sample *ret)
{
    const uint8_t *start = (const uint8_t *) d->r.p;
    struct sample s = {.stack = d->stacks.shift};
    struct str key;

    if (otlp_json_object(d))
        while (json_next_key(&d->r, &key)) {
            if (KEY_IS(key, "stackIndex"))
                s.stack = otlp_json_ref(d, &d->stacks, "stackIndex", false);
            else if (KEY_IS(key, "attributeIndices"))
                s.attrs = otlp_json_refs(d, &d->attrs, "attributeIndices");
            else if (KEY_IS(key, "linkIndex"))
                s.link = otlp_json_ref(d, &d->links, "linkIndex", true);
            else if (KEY_IS(key, "values"))
                s.values = read_values(d);
            else if (KEY_IS(key, "timestampsUnixNano"))
                s.timestamps = read_timestamps(d);
            else
                json_skip(&d->r);
        }
    if (!d->r.err && s.values.n && s.timestamps.n && s.values.n != s.timestamps.n) {
        d->r.err = wire_fail(&d->w, start, NULL, "it has %u values and %u timestamps", s.values.n, s.timestamps.n);
        return d->r.err;
    }
    *ret = s;
    return otlp_json_check(d);
}

static int read_samples(struct otlp_json *d, struct run *run)
{
    struct batch *b = d->b;

    if (otlp_json_array(d))
        while (json_next_item(&d->r)) {
            struct sample s, *slot;
            int r = wire_path(&d->w, read_sample(d, &s), "samples", run->n);

            slot = r < 0 ? NULL : otlp_json_add(d, ARRAY_SAMPLES, &b->samples, &b->n_samples, sizeof *slot);
            if (!slot)
                break;
            *slot = s;
            run->n++;
        }
    return otlp_json_check(d);
}

/* --- profiles --- */

static struct value_type read_value_type(struct otlp_json *d, const char *field)
{
    struct value_type t = {0};
    struct str key;

    if (otlp_json_object(d))
        for (bool first = true; json_next_key(&d->r, &key); first = false) {
            if (first)
                t.type = d->strings.shift;
            if (KEY_IS(key, "typeStrindex"))
                t.type = otlp_json_ref(d, &d->strings, "typeStrindex", false);
            else if (KEY_IS(key, "unitStrindex"))
                t.unit = otlp_json_ref(d, &d->strings, "unitStrindex", true);
            else
                json_skip(&d->r);
        }
    wire_path(&d->w, otlp_json_check(d), field, WIRE_NO_INDEX);
    return t;
}

static void read_profile_field(struct otlp_json *d, struct str key, struct profile *p, struct value_type *type)
{
    if (KEY_IS(key, "sampleType"))
        *type = read_value_type(d, "sampleType");
    else if (KEY_IS(key, "samples"))
        read_samples(d, &p->samples);
    else if (KEY_IS(key, "timeUnixNano"))
        p->time_ns = (int64_t) json_u64(&d->r);
    else if (KEY_IS(key, "durationNano"))
        p->duration_ns = (int64_t) json_u64(&d->r);
    else if (KEY_IS(key, "periodType"))
        p->period_type = read_value_type(d, "periodType");
    else if (KEY_IS(key, "period"))
        p->period = json_i64(&d->r);
    else if (KEY_IS(key, "profileId"))
        otlp_json_id(d, "profileId", p->id, sizeof p->id);
    else if (KEY_IS(key, "droppedAttributesCount"))
        p->dropped_attrs = otlp_json_u32(d);
    else if (KEY_IS(key, "originalPayloadFormat"))
        p->payload_format = json_str(&d->r);
    else if (KEY_IS(key, "originalPayload"))
        p->payload = otlp_json_bytes(d, "originalPayload");
    else if (KEY_IS(key, "attributeIndices"))
        p->attrs = otlp_json_refs(d, &d->attrs, "attributeIndices");
    else if (otlp_json_is_old_key("profiles", key))
        otlp_json_stop(d, -EPROTONOSUPPORT);
    else
        json_skip(&d->r);
}

static int read_profile(struct otlp_json *d)
{
    struct batch *b = d->b;
    struct profile p = {.n_types = 1, .samples.off = b->n_samples}, *slot;
    struct value_type type = {0}, *type_slot;
    struct str key;

    if (otlp_json_object(d))
        while (json_next_key(&d->r, &key))
            read_profile_field(d, key, &p, &type);
    type_slot = otlp_json_add(d, ARRAY_TYPES, &d->types, &d->n_types, sizeof *type_slot);
    slot = type_slot ? otlp_json_add(d, ARRAY_PROFILES, &b->profiles, &b->n_profiles, sizeof *slot) : NULL;
    if (slot) {
        *type_slot = type;
        *slot = p;
    }
    return otlp_json_check(d);
}

/* --- scopes and resources --- */

static int read_scope_message(struct otlp_json *d, struct scope *s)
{
    struct str key;
    int r = 0;

    if (otlp_json_object(d))
        while (r == 0 && json_next_key(&d->r, &key)) {
            if (KEY_IS(key, "name"))
                s->name = json_str(&d->r);
            else if (KEY_IS(key, "version"))
                s->version = json_str(&d->r);
            else if (KEY_IS(key, "attributes"))
                r = otlp_json_kvs(d, "attributes", 0, &s->attrs);
            else if (KEY_IS(key, "droppedAttributesCount"))
                s->dropped_attrs = otlp_json_u32(d);
            else
                json_skip(&d->r);
        }
    return wire_path(&d->w, otlp_json_check(d), "scope", WIRE_NO_INDEX);
}

static int read_profiles(struct otlp_json *d, struct run *run)
{
    if (otlp_json_array(d))
        while (json_next_item(&d->r) && wire_path(&d->w, read_profile(d), "profiles", run->n) == 0)
            run->n++;
    return otlp_json_check(d);
}

static int read_scope(struct otlp_json *d)
{
    struct batch *b = d->b;
    struct scope s = {.profiles.off = b->n_profiles}, *slot;
    struct str key;
    int r = 0;

    if (otlp_json_object(d))
        while (r == 0 && json_next_key(&d->r, &key)) {
            if (KEY_IS(key, "scope"))
                r = read_scope_message(d, &s);
            else if (KEY_IS(key, "profiles"))
                r = read_profiles(d, &s.profiles);
            else if (KEY_IS(key, "schemaUrl"))
                s.schema_url = json_str(&d->r);
            else
                json_skip(&d->r);
        }
    slot = otlp_json_add(d, ARRAY_SCOPES, &b->scopes, &b->n_scopes, sizeof *slot);
    if (slot)
        *slot = s;
    return otlp_json_check(d);
}

static int read_scopes(struct otlp_json *d, struct run *run)
{
    if (otlp_json_array(d))
        while (json_next_item(&d->r) && wire_path(&d->w, read_scope(d), "scopeProfiles", run->n) == 0)
            run->n++;
    return otlp_json_check(d);
}

static void read_strings_to(struct otlp_json *d, struct buf *out, uint32_t field)
{
    if (otlp_json_array(d))
        while (json_next_item(&d->r)) {
            struct str s = json_str(&d->r);

            wire_put_bytes_always(out, field, s.p, s.n);
        }
}

/* Entity references are kept in their protobuf form (batch.h): 1 schema_url, 2 type, 3 id_keys, 4 description_keys. */
static void read_entity_ref(struct otlp_json *d, struct buf *out)
{
    size_t m = wire_begin(out, 3, 64);
    struct str key;

    if (otlp_json_object(d))
        while (json_next_key(&d->r, &key)) {
            if (KEY_IS(key, "schemaUrl"))
                wire_put_str(out, 1, json_str(&d->r));
            else if (KEY_IS(key, "type"))
                wire_put_str(out, 2, json_str(&d->r));
            else if (KEY_IS(key, "idKeys"))
                read_strings_to(d, out, 3);
            else if (KEY_IS(key, "descriptionKeys"))
                read_strings_to(d, out, 4);
            else
                json_skip(&d->r);
        }
    wire_end(out, m);
}

static int read_entity_refs(struct otlp_json *d, struct str *ret)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    char *q;
    int r;

    if (otlp_json_array(d))
        while (json_next_item(&d->r))
            read_entity_ref(d, &out);
    if (d->r.err || !out.n)
        return otlp_json_check(d);
    r = buf_error(&out);
    if (r == 0)
        r = otlp_alloc(&d->b->arena, 1, out.n, &q);
    if (r < 0)
        return otlp_json_stop(d, r);
    memcpy(q, out.p, out.n);
    *ret = (struct str){q, (uint32_t) out.n};
    return 0;
}

static int read_resource_message(struct otlp_json *d, struct resource *res)
{
    struct str key;
    int r = 0;

    if (otlp_json_object(d))
        while (r == 0 && json_next_key(&d->r, &key)) {
            if (KEY_IS(key, "attributes"))
                r = otlp_json_kvs(d, "attributes", 0, &res->attrs);
            else if (KEY_IS(key, "droppedAttributesCount"))
                res->dropped_attrs = otlp_json_u32(d);
            else if (KEY_IS(key, "entityRefs"))
                r = read_entity_refs(d, &res->entity_refs);
            else
                json_skip(&d->r);
        }
    return wire_path(&d->w, otlp_json_check(d), "resource", WIRE_NO_INDEX);
}

static int read_resource(struct otlp_json *d)
{
    struct batch *b = d->b;
    struct resource res = {.scopes.off = b->n_scopes}, *slot;
    struct str key;
    int r = 0;

    if (otlp_json_object(d))
        while (r == 0 && json_next_key(&d->r, &key)) {
            if (KEY_IS(key, "resource"))
                r = read_resource_message(d, &res);
            else if (KEY_IS(key, "scopeProfiles"))
                r = read_scopes(d, &res.scopes);
            else if (KEY_IS(key, "schemaUrl"))
                res.schema_url = json_str(&d->r);
            else
                json_skip(&d->r);
        }
    slot = otlp_json_add(d, ARRAY_RESOURCES, &b->resources, &b->n_resources, sizeof *slot);
    if (slot)
        *slot = res;
    return otlp_json_check(d);
}

static int read_resources(struct otlp_json *d)
{
    if (otlp_json_array(d))
        while (json_next_item(&d->r) && wire_path(&d->w, read_resource(d), "resourceProfiles", d->b->n_resources) == 0)
            ;
    return otlp_json_check(d);
}

/* --- the request --- */

static int read_request(struct otlp_json *d)
{
    bool dictionary = false;
    struct json later = {0}, end;
    struct str key;

    json_begin_object(&d->r);
    while (json_next_key(&d->r, &key)) {
        if (KEY_IS(key, "dictionary")) {
            if (dictionary)
                json_fail(&d->r, "a second dictionary");
            dictionary = true;
            otlp_json_dictionary(d);
        } else if (KEY_IS(key, "resourceProfiles")) {
            if (later.p)
                json_fail(&d->r, "resourceProfiles a second time");
            later = d->r;
            if (dictionary)
                read_resources(d);
            else
                json_skip_unchecked(&d->r);
            if (dictionary)
                later.end = NULL; /* done */
        } else {
            json_skip(&d->r);
        }
    }
    json_end(&d->r);
    if (otlp_json_check(d) < 0 || !later.p || !later.end)
        return d->r.err;
    end = d->r;
    d->r = later;
    if (read_resources(d) == 0)
        d->r = end;
    return d->r.err;
}

static struct otlp_table table_named(const char *name)
{
    return (struct otlp_table){.n = 1, .name = name};
}

static void begin(struct otlp_json *d, struct batch *b, struct str text, size_t memory)
{
    *d = (struct otlp_json){.b = b, .memory = memory};
    buf_init(&d->scratch, memory);
    json_init(&d->r, text, &b->arena);
    d->strings = table_named("stringTable");
    d->mappings = table_named("mappingTable");
    d->functions = table_named("functionTable");
    d->locations = table_named("locationTable");
    d->stacks = table_named("stackTable");
    d->links = table_named("linkTable");
    d->attrs = table_named("attributeTable");
}

/* Releases unused capacity of the arrays, and sets pointers that had to wait until the arrays stopped moving. */
static void finish(struct otlp_json *d)
{
    struct batch *b = d->b;
    struct {
        void *table;
        uint32_t n;
        size_t size;
    } all[ARRAYS] = {
        [ARRAY_STRINGS] = {&b->dict.strings, b->dict.n_strings, sizeof *b->dict.strings},
        [ARRAY_MAPPINGS] = {&b->dict.mappings, b->dict.n_mappings, sizeof *b->dict.mappings},
        [ARRAY_FUNCTIONS] = {&b->dict.functions, b->dict.n_functions, sizeof *b->dict.functions},
        [ARRAY_LOCATIONS] = {&b->dict.locations, b->dict.n_locations, sizeof *b->dict.locations},
        [ARRAY_STACKS] = {&b->dict.stacks, b->dict.n_stacks, sizeof *b->dict.stacks},
        [ARRAY_LINKS] = {&b->dict.links, b->dict.n_links, sizeof *b->dict.links},
        [ARRAY_ATTRS] = {&b->dict.attrs, b->dict.n_attrs, sizeof *b->dict.attrs},
        [ARRAY_LINES] = {&b->dict.lines, b->dict.n_lines, sizeof *b->dict.lines},
        [ARRAY_INDICES] = {&b->dict.indices, b->dict.n_indices, sizeof *b->dict.indices},
        [ARRAY_RESOURCES] = {&b->resources, b->n_resources, sizeof *b->resources},
        [ARRAY_SCOPES] = {&b->scopes, b->n_scopes, sizeof *b->scopes},
        [ARRAY_PROFILES] = {&b->profiles, b->n_profiles, sizeof *b->profiles},
        [ARRAY_TYPES] = {&d->types, d->n_types, sizeof *d->types},
        [ARRAY_SAMPLES] = {&b->samples, b->n_samples, sizeof *b->samples},
        [ARRAY_VALUES] = {&b->values, b->n_values, sizeof *b->values},
        [ARRAY_TIMESTAMPS] = {&b->timestamps, b->n_timestamps, sizeof *b->timestamps},
    };

    for (size_t i = 0; i < ARRAYS; i++) {
        void *p = b->owned[i] ? mem_realloc(b->owned[i], all[i].n * all[i].size) : NULL;

        if (p)
            *(void **) all[i].table = b->owned[i] = p;
        if (b->owned[i])
            b->owned_size += all[i].n * all[i].size;
    }
    for (uint32_t i = 0; i < b->n_profiles; i++)
        b->profiles[i].types = &d->types[i];
}

int otlp_json_decode_borrowed(const char *p, size_t n, const struct otlp_limits *limits, struct batch **ret,
                              struct err *e)
{
    static const struct otlp_limits defaults;
    const struct otlp_limits *l = limits ? limits : &defaults;
    size_t input = l->input ? l->input : OTLP_INPUT_MAX, memory = l->memory ? l->memory : ((size_t) 1 << 20) + 8 * n;
    _cleanup_(batch_unrefp) struct batch *b = NULL;
    enum otlp_generation g = OTLP_G5;
    struct otlp_json d;
    int r;

    if (n > MIN(input, (size_t) INT32_MAX))
        return err_set(e, -EFBIG, "a request of %zu bytes is over the limit of %zu", n, input);
    r = batch_new(memory, &b);
    if (r < 0)
        return r;
    begin(&d, b, (struct str){p ? p : "", (uint32_t) n}, memory);
    r = read_request(&d);
    buf_done(&d.scratch);
    if (r == -ENOMEM && b->arena.used + ((size_t) 1 << 20) > memory)
        r = -EFBIG; /* the arena's limit, reached while a string was unescaped */
    if (r == -EFBIG && d.empty > WIRE_EMPTY_MAX)
        return err_set(e, r, "a request of %zu bytes has more than %d empty messages", n, WIRE_EMPTY_MAX);
    if (r == -EFBIG)
        return err_set(e, r, "a request of %zu bytes needs more than %zu bytes of memory", n, memory);
    if (r == -EPROTONOSUPPORT || r == -EINVAL)
        g = otlp_json_generation((struct str){p ? p : "", (uint32_t) n}, &b->arena);
    if (g != OTLP_G5)
        return otlp_generation_refuse(g, e);
    if (r == -EPROTONOSUPPORT) /* it has a key of older generations, and the rest is too damaged to tell which one */
        return err_set(e, r, "OTLP profiles with fields from before 1.10; wick reads 1.10 and later: update the sender");
    if (r < 0)
        return wire_report(&d.w, (const uint8_t *) d.r.start, r, "OTLP profiles", e);
    finish(&d);
    otlp_group_profiles(b);
    *ret = TAKE(b);
    return 0;
}

int otlp_json_decode(struct buf *in, const struct otlp_limits *limits, struct batch **ret, struct err *e)
{
    int r = otlp_json_decode_borrowed(in->p, in->n, limits, ret, e);

    if (r == 0)
        otlp_own(*ret, in);
    return r;
}
