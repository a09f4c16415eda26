/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Determines which opentelemetry-proto a JSON request was made with. Field names changed between generations, so the
 * keys identify it. 1.9 and 1.10 have the same names for the same things (1.10 gave the fields of a sample other numbers): a
 * document of one is a document of the other with the same meaning, and is read as 1.10.
 */
#include "codec/otlp_json.h"
#include "codec/otlp_scan.h"

enum {
    B0 = OTLP_BIT(OTLP_G0),
    B1 = OTLP_BIT(OTLP_G1),
    B16 = OTLP_BIT(OTLP_G1_6),
    B2 = OTLP_BIT(OTLP_G2),
    B3 = OTLP_BIT(OTLP_G3),
    B45 = OTLP_BIT(OTLP_G4) | OTLP_BIT(OTLP_G5),
};

/* Keys that only some generations have; `parent` is the key of the object that contains them, "" the request itself. */
static const struct {
    const char *parent, *key;
    uint8_t generations;
} keys[] = {
    {"", "dictionary", B2 | B3 | B45},
    {"", "mappingTable", B16},
    {"", "locationTable", B16},
    {"", "functionTable", B16},
    {"", "stringTable", B16},
    {"dictionary", "stackTable", B3 | B45},
    {"dictionary", "attributeUnits", B2},
    {"profiles", "startTimeUnixNano", B0},
    {"profiles", "endTimeUnixNano", B0},
    {"profiles", "profile", B0},
    {"profiles", "mappingTable", B1},
    {"profiles", "locationTable", B1},
    {"profiles", "functionTable", B1},
    {"profiles", "attributeTable", B1},
    {"profiles", "attributeUnits", B1},
    {"profiles", "linkTable", B1},
    {"profiles", "stringTable", B1},
    {"profiles", "defaultSampleTypeStrindex", B1},
    {"profiles", "defaultSampleTypeIndex", B16 | B2},
    {"profiles", "locationIndices", B1 | B16 | B2},
    {"profiles", "timeNanos", B1 | B16 | B2},
    {"profiles", "durationNanos", B1 | B16 | B2},
    {"profiles", "commentStrindices", B1 | B16 | B2 | B3},
    {"profiles", "sample", B1 | B16 | B2 | B3},
    {"profiles", "samples", B45},
    {"profiles", "timeUnixNano", B3 | B45},
    {"profiles", "durationNano", B3 | B45},
    {"sample", "locationsStartIndex", B1 | B16 | B2},
    {"sample", "locationsLength", B1 | B16 | B2},
    {"sample", "value", B1 | B16 | B2},
    {"sample", "stackIndex", B3},
    {"sample", "values", B3},
    {"locationTable", "isFolded", B1 | B16 | B2},
    {"locationTable", "line", B1 | B16 | B2 | B3},
    {"locationTable", "lines", B45},
    {"mappingTable", "hasFunctions", B1 | B16 | B2},
    {"sampleType", "aggregationTemporality", B1 | B16 | B2 | B3},
};

static uint8_t generations_of(struct str parent, struct str key)
{
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
        if (str_is(key, keys[i].key) && str_is(parent, keys[i].parent))
            return keys[i].generations;
    return UINT8_MAX;
}

bool otlp_json_is_old_key(const char *parent, struct str key)
{
    return !(generations_of(str_from(parent), key) & OTLP_BIT(OTLP_G5));
}

/* Recursion ends at JSON_DEPTH_MAX, which the reader enforces. */
static void look(struct json *r, struct str parent, struct otlp_evidence *ev)
{
    struct str key;

    switch (json_peek(r)) {
    case JSON_OBJECT:
        json_begin_object(r);
        while (json_next_key(r, &key)) {
            ev->possible &= generations_of(parent, key);
            ev->dictionary |= !parent.n && str_is(key, "dictionary");
            ev->top_strings |= !parent.n && str_is(key, "stringTable");
            look(r, key, ev);
        }
        break;
    case JSON_ARRAY:
        json_begin_array(r);
        while (json_next_item(r))
            look(r, parent, ev);
        break;
    default:
        json_skip(r);
    }
}

enum otlp_generation otlp_json_generation(struct str text, struct arena *a)
{
    struct otlp_evidence ev = {.possible = UINT8_MAX};
    struct json r;

    json_init(&r, text, a);
    look(&r, STR(""), &ev);
    return ev.possible & OTLP_BIT(OTLP_G5) ? OTLP_G5 : otlp_generation_older(&ev);
}
