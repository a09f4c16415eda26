/* SPDX-License-Identifier: Apache-2.0 */
/* What records look like, for others: JSON schemas, and lists of fields for people; see record.h. */
#include "base/json.h"
#include "base/record.h"

static const struct kind {
    const char *word;                /* what people call it */
    const char *type, *limit, *rest; /* of the schema: its type, the word for the limit, and what else there is */
} kinds[] = {
    [RECORD_STR] = {"text", "\"string\"", "maxLength"},
    [RECORD_TEXT] = {"text", "\"string\"", "maxLength"},
    [RECORD_CHARS] = {"text", "\"string\""},
    [RECORD_BOOL] = {"true or false", "\"boolean\""},
    [RECORD_INT] = {"integer", "\"integer\"", "maximum"},
    [RECORD_COUNT] = {"integer", "\"integer\"", "maximum"},
    [RECORD_U32] = {"integer", "\"integer\"", "maximum"},
    [RECORD_NUMBER] = {"number", "\"number\""},
    [RECORD_PAIR] = {"an integer, or two for a comparison", "[\"integer\",\"array\"]", NULL,
                     "\"items\":{\"type\":\"integer\"},\"maxItems\":2"},
    [RECORD_NUMBERS2] = {"two numbers", "\"array\"", NULL,
                         "\"items\":{\"type\":\"number\"},\"minItems\":2,\"maxItems\":2"},
    [RECORD_NS] = {"nanoseconds as text", "\"string\"", NULL, "\"pattern\":\"^[0-9]+$\""},
    [RECORD_TIME] = {"time", "[\"string\",\"null\"]", NULL, "\"format\":\"date-time\""},
    [RECORD_ID] = {"hexadecimal", "\"string\"", NULL, "\"pattern\":\"^([0-9a-f]{16})+$\""},
    [RECORD_BYTES] = {"hexadecimal", "\"string\"", NULL, "\"pattern\":\"^[0-9a-f]*$\""},
    [RECORD_WORD] = {"word", "\"string\""},
    [RECORD_STRS] = {"list of texts", "\"array\"", "maxItems", "\"items\":{\"type\":\"string\"}"},
    [RECORD_INTS] = {"list of integers", "\"array\"", "maxItems", "\"items\":{\"type\":\"integer\"}"},
    [RECORD_NUMBERS] = {"list of numbers", "\"array\"", "maxItems", "\"items\":{\"type\":[\"number\",\"null\"]}"},
    [RECORD_LISTS] = {"list of lists of integers", "\"array\"", "maxItems",
                      "\"items\":{\"type\":\"array\",\"items\":{\"type\":\"integer\"}}"},
    [RECORD_MAP] = {"object of texts", "\"object\"", NULL, "\"additionalProperties\":{\"type\":\"string\"}"},
    [RECORD_ONE] = {"object", "\"object\""},
    [RECORD_MAYBE] = {"object", "\"object\""},
    [RECORD_LIST] = {"list of objects", "\"array\"", "maxItems"},
};

/* --- schemas --- */

const char *record_unit_name(enum record_unit u)
{
    static const char *const names[] = {[UNIT_VALUE] = "the answer's unit",
                                        [UNIT_NS] = "nanoseconds",
                                        [UNIT_SHARE] = "share",
                                        [UNIT_POINTS] = "percentage points",
                                        [UNIT_CORES] = "cores",
                                        [UNIT_P] = "probability",
                                        [UNIT_FIT] = "r squared"};

    return names[u];
}

static void put_words(struct buf *out, const char *const *words)
{
    bool first = true;

    buf_puts(out, ",\"enum\":[");
    for (; *words; words++) {
        json_sep(out, &first);
        json_put_str(out, str_from(*words));
    }
    buf_putc(out, ']');
}

static void put_properties(struct buf *out, bool *first, const struct record_field *fields)
{
    for (const struct record_field *f = fields; f->kind; f++) {
        if (f->kind == RECORD_INLINE) {
            put_properties(out, first, f->fields);
            continue;
        }
        json_put_key(out, first, f->name);
        record_value_schema(out, f);
    }
}

static void put_required(struct buf *out, const struct record_field *fields)
{
    bool first = true;

    for (const struct record_field *f = fields; f->kind; f++)
        if (f->flags & RECORD_REQUIRED) {
            buf_puts(out, first ? ",\"required\":[" : ",");
            json_put_str(out, str_from(f->name));
            first = false;
        }
    buf_puts(out, first ? "" : "]");
}

void record_value_schema(struct buf *out, const struct record_field *f)
{
    const struct kind *k = &kinds[f->kind];
    bool first = false;

    buf_printf(out, "{\"type\":%s", k->type);
    if (f->help)
        json_put_key_text(out, &first, "description", f->help);
    if (k->limit && f->limit)
        json_put_key_u64(out, &first, k->limit, f->limit);
    if (f->words)
        put_words(out, f->words);
    if (k->rest)
        buf_printf(out, ",%s", k->rest);
    if (f->kind == RECORD_LIST) {
        buf_puts(out, ",\"items\":");
        record_schema(out, f->fields);
    } else if (f->fields) {
        bool none = true;

        buf_puts(out, ",\"properties\":{");
        put_properties(out, &none, f->fields);
        buf_putc(out, '}');
        put_required(out, f->fields);
    }
    if (record_unit_name(f->unit))
        json_put_key_text(out, &first, "x-unit", record_unit_name(f->unit));
    if (f->flags & RECORD_OURS)
        json_put_key_bool(out, &first, "readOnly", true);
    buf_putc(out, '}');
}

void record_schema(struct buf *out, const struct record_field *fields)
{
    record_value_schema(out, &(struct record_field){.kind = RECORD_ONE, .fields = fields});
}

/* --- for people --- */

static void put_outlines(struct buf *out, const struct record_field *fields)
{
    for (const struct record_field *f = fields; f->kind; f++) {
        buf_puts(out, f == fields ? "" : ", ");
        if (f->kind == RECORD_INLINE) {
            put_outlines(out, f->fields);
            continue;
        }
        buf_puts(out, f->name);
        record_outline(out, f);
    }
}

void record_outline(struct buf *out, const struct record_field *f)
{
    if (!f->fields)
        return;
    buf_putc(out, f->kind == RECORD_LIST ? '[' : '{');
    put_outlines(out, f->fields);
    buf_putc(out, f->kind == RECORD_LIST ? ']' : '}');
}

static void put_reference(struct buf *out, const struct record_field *f, unsigned depth)
{
    const char *unit = record_unit_name(f->unit);

    buf_pad(out, ' ', (size_t) 2 * depth);
    buf_printf(out, "- `%s` (%s", f->name, kinds[f->kind].word);
    for (const char *const *w = f->words; w && *w; w++)
        buf_printf(out, "%s%s", w == f->words ? ": " : ", ", **w ? *w : "none");
    buf_printf(out, "%s%s%s)%s%s\n", unit ? ", " : "", unit ? unit : "",
               f->flags & RECORD_SPARSE || f->when ? ", if any" : "", f->help ? ": " : "", f->help ? f->help : "");
    if (f->fields)
        record_reference(out, f->fields, depth + 1);
}

void record_reference(struct buf *out, const struct record_field *fields, unsigned depth)
{
    for (const struct record_field *f = fields; f->kind; f++)
        if (f->kind == RECORD_INLINE)
            record_reference(out, f->fields, depth);
        else
            put_reference(out, f, depth);
}
