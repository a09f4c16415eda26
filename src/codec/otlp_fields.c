/* SPDX-License-Identifier: Apache-2.0 */
/* The messages of OTLP's dictionary (otlp_fields.h), in the order of their field numbers. */
#include "codec/otlp_fields.h"

#define FIELD(type, member, kind, to, name, key)                                                     \
    {                                                                                                \
        name, STR(key), kind, to, sizeof(((struct type *) 0)->member), offsetof(struct type, member) \
    }

const struct otlp_message otlp_mapping = {
    sizeof(struct mapping),
    5,
    NULL,
    {FIELD(mapping, start, OTLP_U64, TO_NOTHING, "memory_start", "memoryStart"),
     FIELD(mapping, limit, OTLP_U64, TO_NOTHING, "memory_limit", "memoryLimit"),
     FIELD(mapping, offset, OTLP_U64, TO_NOTHING, "file_offset", "fileOffset"),
     FIELD(mapping, filename, OTLP_REF_OPTIONAL, TO_STRINGS, "filename_strindex", "filenameStrindex"),
     FIELD(mapping, attrs, OTLP_REFS, TO_ATTRS, "attribute_indices", "attributeIndices")},
};

const struct otlp_message otlp_location = {
    sizeof(struct location),
    4,
    &otlp_location.fields[0],
    {FIELD(location, mapping, OTLP_REF, TO_MAPPINGS, "mapping_index", "mappingIndex"),
     FIELD(location, address, OTLP_U64, TO_NOTHING, "address", "address"),
     FIELD(location, lines, OTLP_LINES, TO_NOTHING, "lines", "lines"),
     FIELD(location, attrs, OTLP_REFS, TO_ATTRS, "attribute_indices", "attributeIndices")},
};

const struct otlp_message otlp_line = {
    sizeof(struct line),
    3,
    &otlp_line.fields[0],
    {FIELD(line, function, OTLP_REF, TO_FUNCTIONS, "function_index", "functionIndex"),
     FIELD(line, line, OTLP_I64, TO_NOTHING, "line", "line"),
     FIELD(line, column, OTLP_I64, TO_NOTHING, "column", "column")},
};

const struct otlp_message otlp_function = {
    sizeof(struct function),
    4,
    &otlp_function.fields[0],
    {FIELD(function, name, OTLP_REF, TO_STRINGS, "name_strindex", "nameStrindex"),
     FIELD(function, system_name, OTLP_REF_OPTIONAL, TO_STRINGS, "system_name_strindex", "systemNameStrindex"),
     FIELD(function, filename, OTLP_REF_OPTIONAL, TO_STRINGS, "filename_strindex", "filenameStrindex"),
     FIELD(function, start_line, OTLP_I64, TO_NOTHING, "start_line", "startLine")},
};

const struct otlp_message otlp_link = {
    sizeof(struct link),
    2,
    NULL,
    {FIELD(link, trace_id, OTLP_ID, TO_NOTHING, "trace_id", "traceId"),
     FIELD(link, span_id, OTLP_ID, TO_NOTHING, "span_id", "spanId")},
};

const struct otlp_message otlp_attr = {
    sizeof(struct attr),
    3,
    &otlp_attr.fields[0],
    {FIELD(attr, key, OTLP_REF, TO_STRINGS, "key_strindex", "keyStrindex"),
     FIELD(attr, value, OTLP_VALUE, TO_NOTHING, "value", "value"),
     FIELD(attr, unit, OTLP_REF_OPTIONAL, TO_STRINGS, "unit_strindex", "unitStrindex")},
};

const struct otlp_message otlp_stack = {
    sizeof(struct run),
    1,
    NULL,
    {{"location_indices", STR("locationIndices"), OTLP_REFS, TO_LOCATIONS, sizeof(struct run), 0}},
};

bool otlp_is_zero(const struct otlp_message *m, const void *entry, uint32_t shift)
{
    static const uint8_t zeros[16];

    for (const struct otlp_field *f = m->fields; f < m->fields + m->n; f++) {
        const void *at = (const char *) entry + f->offset;

        if (f->kind == OTLP_REF                             ? *(const uint32_t *) at != shift
            : f->kind == OTLP_REFS || f->kind == OTLP_LINES ? ((const struct run *) at)->n != 0
            : f->kind == OTLP_VALUE                         ? ((const struct value *) at)->kind != VALUE_EMPTY
                                                            : memcmp(at, zeros, f->size) != 0)
            return false;
    }
    return true;
}
