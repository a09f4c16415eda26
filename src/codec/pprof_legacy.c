/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the legacy parsers: lines, patterns, tables, and the final batch. See pprof_legacy.h. */
#include "codec/pprof_legacy.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/regex.h"
#include "codec/pprof.h"
#include "model/builder.h"
#include "model/identity.h"
#include "model/semconv.h"

#define HEX "(?:0x)?([[:xdigit:]]+)"
#define HEX_RANGE "\\s*" HEX "[\\s-]?\\s*" HEX ":?"
#define PERMISSIONS "(?:\\s+([-rwxp]+))?"

static const char *const patterns[LEGACY_PATTERNS] = {
    [RE_COUNT_START] = "\\A(\\S+) profile: total \\d+\\z",
    [RE_COUNT] = "\\A(\\d+) @((?: 0x[0-9a-f]+)+)\\z",
    [RE_HEAP_HEADER] = "heap profile: *(\\d+): *(\\d+) *\\[ *(\\d+): *(\\d+) *\\] *@ *(heap[_a-z0-9]*)/?(\\d*)",
    [RE_HEAP_SAMPLE] = "(-?\\d+): *(-?\\d+) *\\[ *(\\d+): *(\\d+) *] @([ x0-9a-f]*)",
    [RE_CONTENTION_SAMPLE] = "(\\d+) *(\\d+) @([ x0-9a-f]*)",
    [RE_GROWTH_HEADER] = "heap profile: *(\\d+): *(\\d+) *\\[ *(\\d+): *(\\d+) *\\] @ growthz?",
    [RE_FRAGMENTATION_HEADER] = "heap profile: *(\\d+): *(\\d+) *\\[ *(\\d+): *(\\d+) *\\] @ fragmentationz?",
    [RE_THREADZ_START] = "--- threadz \\d+ ---",
    [RE_THREAD_START] = "--- Thread ([[:xdigit:]]+) \\(name: (.*)/(\\d+)\\) stack: ---",
    [RE_PROC_MAPS] = "^" HEX_RANGE PERMISSIONS "(?:\\s+([[:xdigit:]]+))?\\s+[[:xdigit:]]+:[[:xdigit:]]+"
                     "\\s+[[:digit:]]+(?:\\s+(\\S+))?",
    [RE_BRIEF_MAPS] = "^" HEX_RANGE PERMISSIONS "(?:\\s+(\\S+))?(?:\\s+\\(@([[:xdigit:]]+)\\))?"
                      "(?:\\s+([[:xdigit:]]+))?",
    [RE_LOG_INFO] = "^([^\\[\\]]+:[0-9]+]\\s)",
    [RE_LIBRARY] = "[.]so$|[.]so[._][0-9]+",
    [RE_JAVA_ATTRIBUTE] = "([\\w ]+)=([\\w ]+)",
    [RE_JAVA_SAMPLE] = " *(\\d+) +(\\d+) +@ +([ x0-9a-f]*)",
    [RE_JAVA_LOCATION] = "^\\s*0x([[:xdigit:]]+)\\s+(.*)\\s*$",
    [RE_JAVA_FILE_LINE] = "^(.*)\\s+\\((.+):(-?[[:digit:]]+)\\)$",
    [RE_JAVA_PATH] = "^(.*)\\s+\\((.*)\\)$",
};

/* --- lines and patterns --- */

bool legacy_scan(struct legacy *l)
{
    struct str rest = str_slice(l->data, l->pos, l->data.n);
    ptrdiff_t n;

    l->line = (struct str){0};
    if (!rest.n)
        return false;
    n = str_find_char(rest, '\n');
    if ((n < 0 ? rest.n : (size_t) n) > LEGACY_LINE_MAX) {
        l->scan_error =
            err_set(l->e, -EMSGSIZE, "pprof: the line at byte %zu is longer than %d", l->pos, LEGACY_LINE_MAX);
        l->pos = l->data.n;
        return false;
    }
    l->line = str_slice(rest, 0, n < 0 ? rest.n : (size_t) n);
    l->pos += l->line.n + (n >= 0);
    if (l->line.n && l->line.p[l->line.n - 1] == '\r')
        l->line.n--;
    return true;
}

bool legacy_match(struct legacy *l, enum legacy_pattern p, struct str text, struct str *groups, int n)
{
    size_t start, end;

    if (!l->patterns[p] && regex_new(str_from(patterns[p]), &l->patterns[p], NULL) < 0)
        return false;
    return regex_find(l->patterns[p], text, 0, &start, &end, groups, n);
}

bool legacy_is_comment(struct str line)
{
    line = str_trim(line);
    return !line.n || line.p[0] == '#';
}

bool legacy_is_maps_start(struct str line)
{
    return str_find(line, STR("--- Memory map: ---")) >= 0 || str_find(line, STR("MAPPED_LIBRARIES:")) >= 0;
}

/* --- numbers --- */

/* Cuts sign and prefix off *s and returns the base. */
static int number_base(struct str *s, bool *ret_negative)
{
    static const struct {
        char letter;
        int base;
    } prefixes[] = {{'x', 16}, {'o', 8}, {'b', 2}};

    *ret_negative = s->n && *s->p == '-';
    if (s->n && (*s->p == '-' || *s->p == '+'))
        *s = str_slice(*s, 1, s->n);
    if (s->n < 2 || s->p[0] != '0')
        return 10;
    for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++)
        if (s->n > 2 && tolower((unsigned char) s->p[1]) == prefixes[i].letter) {
            *s = str_slice(*s, 2, s->n);
            return prefixes[i].base;
        }
    *s = str_slice(*s, 1, s->n);
    return 8;
}

static int digits(struct str s, int base, uint64_t *ret)
{
    uint64_t v = 0;

    if (!s.n)
        return -EINVAL;
    for (uint32_t i = 0; i < s.n; i++) {
        int c = tolower((unsigned char) s.p[i]), d = c >= 'a' ? c - 'a' + 10 : c - '0';

        if (c == '_' && i && i + 1 < s.n && s.p[i + 1] != '_')
            continue;
        if (!isalnum(c) || d >= base)
            return -EINVAL;
        if (__builtin_mul_overflow(v, (uint64_t) base, &v) || __builtin_add_overflow(v, (uint64_t) d, &v))
            return -ERANGE;
    }
    *ret = v;
    return 0;
}

int legacy_int(struct str s, int64_t *ret)
{
    bool negative;
    int base = number_base(&s, &negative), r;
    uint64_t v;

    r = digits(s, base, &v);
    if (r < 0)
        return r;
    if (v > (uint64_t) INT64_MAX + negative)
        return -ERANGE;
    *ret = (int64_t) (negative ? 0 - v : v);
    return 0;
}

int legacy_decimal(struct str s, int64_t *ret)
{
    return str_to_i64(s, 10, ret);
}

void legacy_unsample(int64_t *count, int64_t *size, int64_t rate)
{
    double scale;

    if (*count == 0 || *size == 0) {
        *count = *size = 0;
        return;
    }
    if (rate <= 1)
        return;
    scale = 1 / (1 - exp(-((double) *size / (double) *count) / (double) rate));
    *count = wrap_int64((double) *count * scale);
    *size = wrap_int64((double) *size * scale);
}

/* --- tables --- */

struct legacy_sample *legacy_add_sample(struct legacy *l)
{
    struct legacy_sample *s;

    if (array_reserve(l->samples, l->cap_samples, l->n_samples + 1, UINT32_MAX) < 0)
        return NULL;
    s = &l->samples[l->n_samples++];
    *s = (struct legacy_sample){.first = l->n_refs};
    return s;
}

static int find_location(struct legacy *l, uint64_t address, uint32_t *ret)
{
    uint64_t h = hash64_u64(address);
    int r;

    for (struct map_pos p = map_find(&l->by_address, h); p.index != MAP_NONE; p = map_next(&l->by_address, p))
        if (l->locations[p.index].address == address) {
            *ret = p.index;
            return 0;
        }
    r = array_reserve(l->locations, l->cap_locations, l->n_locations + 1, UINT32_MAX);
    if (r == 0)
        r = map_insert(&l->by_address, h, (uint32_t) l->n_locations);
    if (r < 0)
        return r;
    l->locations[l->n_locations] = (struct legacy_location){.address = address};
    *ret = (uint32_t) l->n_locations++;
    return 0;
}

int legacy_add_ref(struct legacy *l, uint64_t address)
{
    uint32_t location;
    int r = find_location(l, address, &location);

    if (r == 0)
        r = array_push(l->refs, l->n_refs, l->cap_refs, UINT32_MAX, location);
    if (r < 0)
        return r;
    l->samples[l->n_samples - 1].n++;
    return 0;
}

int legacy_add_refs(struct legacy *l, struct str text, uint64_t leaf, uint64_t caller)
{
    for (uint32_t i = 0; i + 2 < text.n; i++) {
        struct str hex = {text.p + i + 2, 0};
        uint64_t address;
        int r;

        if (text.p[i] != '0' || text.p[i + 1] != 'x')
            continue;
        while (i + 2 + hex.n < text.n && strchr("0123456789abcdef", hex.p[hex.n]) && hex.p[hex.n])
            hex.n++;
        if (!hex.n)
            continue;
        r = digits(hex, 16, &address);
        if (r < 0)
            return err_set(l->e, -EINVAL, "pprof: malformed sample: failed to parse as hex 64-bit number: 0x%.*s",
                           STR_FMT(hex));
        r = legacy_add_ref(l, address - (l->samples[l->n_samples - 1].n ? caller : leaf));
        if (r < 0)
            return r;
        i += 1 + hex.n;
    }
    return 0;
}

void legacy_set_types(struct legacy *l, const struct legacy_type *types, uint32_t n)
{
    memcpy(l->types, types, n * sizeof *types);
    l->n_types = n;
}

void legacy_drop_ref(struct legacy *l, struct legacy_sample *s, size_t k)
{
    memmove(&l->refs[s->first + k], &l->refs[s->first + k + 1], (s->n - k - 1) * sizeof *l->refs);
    s->n--;
}

void legacy_drop_double_leaf(struct legacy *l)
{
    for (size_t i = 0; i < l->n_samples; i++) {
        struct legacy_sample *s = &l->samples[i];

        if (s->n > 1 && l->locations[l->refs[s->first]].address == l->locations[l->refs[s->first + 1]].address + 1)
            legacy_drop_ref(l, s, 1);
    }
}

/* --- the profilers' own frames in stacks --- */

static const char alloc_frames[] =
    "calloc|cfree|malloc|free|memalign|do_memalign|(__)?posix_memalign|pvalloc|valloc|realloc|"
    "tcmalloc::.*|tc_calloc|tc_cfree|tc_malloc|tc_free|tc_memalign|tc_posix_memalign|tc_pvalloc|tc_valloc|tc_realloc|"
    "tc_new|tc_delete|tc_newarray|tc_deletearray|tc_new_nothrow|tc_newarray_nothrow|"
    "malloc_zone_malloc|malloc_zone_calloc|malloc_zone_valloc|malloc_zone_realloc|malloc_zone_memalign|"
    "malloc_zone_free|"
    "runtime\\..*|"
    "BaseArena::.*|(::)?do_malloc_no_errno|(::)?do_malloc_pages|(::)?do_malloc|DoSampledAllocation|"
    "MallocedMemBlock::MallocedMemBlock|_M_allocate|__builtin_(vec_)?delete|__builtin_(vec_)?new|"
    "__gnu_cxx::new_allocator::allocate|__libc_malloc|__malloc_alloc_template::allocate|allocate|cpp_alloc|"
    "operator new(\\[\\])?|simple_alloc::allocate";
static const char alloc_keep[] = "runtime\\.panic|runtime\\.reflectcall|runtime\\.call[0-9]*";
static const char cpu_frames[] =
    "ProfileData::Add|ProfileData::prof_handler|CpuProfiler::prof_handler|__pthread_sighandler|__restore";
static const char lock_frames[] =
    "RecordLockProfileData|(base::)?RecordLockProfileData.*|(base::)?SubmitMutexProfileData.*|"
    "(base::)?SubmitSpinLockProfileData.*|(base::Mutex::)?AwaitCommon.*|(base::Mutex::)?Unlock.*|"
    "(base::Mutex::)?UnlockSlow.*|(base::Mutex::)?ReaderUnlock.*|(base::MutexLock::)?~MutexLock.*|"
    "(Mutex::)?AwaitCommon.*|(Mutex::)?Unlock.*|(Mutex::)?UnlockSlow.*|(Mutex::)?ReaderUnlock.*|"
    "(MutexLock::)?~MutexLock.*|(SpinLock::)?Unlock.*|(SpinLock::)?SlowUnlock.*|(SpinLockHolder::)?~SpinLockHolder.*";

static bool types_are(const struct legacy *l, const char *const *names)
{
    uint32_t n = 0;

    while (n < LEGACY_VALUES && names[n])
        n++;
    if (n != l->n_types)
        return false;
    for (uint32_t i = 0; i < n; i++)
        if (!str_is(l->types[i].type, names[i]))
            return false;
    return true;
}

static void frames_to_drop(const struct legacy *l, const char **ret_drop, const char **ret_keep)
{
    static const char *const heap[][LEGACY_VALUES] = {
        {"objects", "space"},
        {"inuse_objects", "inuse_space"},
        {"alloc_objects", "alloc_space"},
        {"alloc_objects", "alloc_space", "inuse_objects", "inuse_space"},
    };
    static const char *const contention[LEGACY_VALUES] = {"contentions", "delay"};

    *ret_keep = "";
    *ret_drop = types_are(l, contention) ? lock_frames : cpu_frames;
    for (size_t i = 0; i < ARRAY_SIZE(heap); i++)
        if (types_are(l, heap[i])) {
            *ret_drop = alloc_frames;
            *ret_keep = alloc_keep;
        }
}

/* --- the batch --- */

struct legacy_remap {
    uint32_t *mappings, *functions, *locations, *stack;
};

static void build_symbols(const struct legacy *l, struct builder *b, struct legacy_remap *m)
{
    for (size_t i = 0; i < l->n_mappings; i++) {
        const struct legacy_mapping *x = &l->mappings[i];
        struct mapping mapping = {.start = x->start, .limit = x->limit, .offset = x->offset};
        uint32_t id = x->build_id.n ? builder_attr_str(b, identity_build_id_key(x->build_id), x->build_id) : 0;

        mapping.filename = builder_string(b, x->file);
        m->mappings[i] = builder_mapping(b, &mapping, &id, x->build_id.n != 0);
    }
    for (size_t i = 0; i < l->n_functions; i++) {
        uint32_t name = builder_string(b, l->functions[i].name);

        m->functions[i] = builder_function(
            b,
            &(struct function){.name = name, .system_name = name, .filename = builder_string(b, l->functions[i].file)});
    }
    for (size_t i = 0; i < l->n_locations; i++) {
        const struct legacy_location *x = &l->locations[i];
        struct line line = {.line = x->line};

        if (x->function)
            line.function = m->functions[x->function - 1];
        m->locations[i] =
            builder_location(b, &(struct builder_location){.mapping = x->mapping ? m->mappings[x->mapping - 1] : 0,
                                                           .address = x->address,
                                                           .lines = &line,
                                                           .n_lines = x->function != 0});
    }
}

static void build_samples(const struct legacy *l, struct builder *b, struct legacy_remap *m)
{
    for (size_t i = 0; i < l->n_samples && !builder_error(b); i++) {
        const struct legacy_sample *s = &l->samples[i];
        struct run attrs = {0};

        for (size_t k = 0; k < s->n; k++)
            m->stack[k] = m->locations[l->refs[s->first + k]];
        if (s->has_bytes) {
            uint32_t attr = builder_attr_int(b, STR("bytes"), s->bytes, (struct str){0});

            attrs = builder_attrs(b, &attr, 1);
        }
        builder_sample(b, &(struct builder_sample){.stack = builder_stack(b, m->stack, (uint32_t) s->n),
                                                   .attrs = attrs,
                                                   .values = s->values,
                                                   .n_values = l->n_types});
    }
}

static void build_profile(const struct legacy *l, struct builder *b)
{
    struct value_type types[LEGACY_VALUES] = {{0}};
    uint32_t attrs[2], n = 0;
    const char *drop, *keep;
    struct profile *p;

    for (uint32_t i = 0; i < l->n_types; i++)
        types[i] = (struct value_type){builder_string(b, l->types[i].type), builder_string(b, l->types[i].unit)};
    p = builder_profile(b, types, MAX(l->n_types, 1u));
    if (!p)
        return;
    p->period_type =
        (struct value_type){builder_string(b, l->period_type.type), builder_string(b, l->period_type.unit)};
    p->period = l->period;
    p->duration_ns = l->duration_ns;
    frames_to_drop(l, &drop, &keep);
    attrs[n++] = builder_attr_str(b, STR(SEMCONV_PPROF_DROP_FRAMES), str_from(drop));
    if (*keep)
        attrs[n++] = builder_attr_str(b, STR(SEMCONV_PPROF_KEEP_FRAMES), str_from(keep));
    p->attrs = builder_attrs(b, attrs, n);
}

static int legacy_finish(const struct legacy *l, size_t memory, struct batch **ret)
{
    _cleanup_(builder_freep) struct builder *b = NULL;
    struct arena scratch;
    struct legacy_remap m;
    size_t depth = 1;
    int r;

    if (!l->n_types && l->n_samples)
        return err_set(l->e, -EINVAL, "pprof: missing sample type information");
    for (size_t i = 0; i < l->n_samples; i++)
        depth = MAX(depth, l->samples[i].n);
    r = builder_new(&(struct builder_limits){.memory = memory}, &b);
    if (r < 0)
        return r;
    arena_init(&scratch, 0);
    m = (struct legacy_remap){
        arena_zalloc_array(&scratch, l->n_mappings + 1, sizeof(uint32_t)),
        arena_zalloc_array(&scratch, l->n_functions + 1, sizeof(uint32_t)),
        arena_zalloc_array(&scratch, l->n_locations + 1, sizeof(uint32_t)),
        arena_zalloc_array(&scratch, depth, sizeof(uint32_t)),
    };
    if (m.mappings && m.functions && m.locations && m.stack) {
        builder_resource(b);
        builder_scope(b, (struct str){0}, (struct str){0});
        build_profile(l, b);
        build_symbols(l, b, &m);
        build_samples(l, b, &m);
        r = builder_finish(b, ret, l->e);
    } else {
        r = -ENOMEM;
    }
    arena_done(&scratch);
    return r;
}

/* Empties everything that a parser may have filled before it recognised that the format is another one. */
static void legacy_reset(struct legacy *l)
{
    l->n_types = 0;
    l->period_type = (struct legacy_type){0};
    l->period = l->duration_ns = 0;
    l->n_locations = l->n_mappings = l->n_functions = l->n_samples = l->n_refs = 0;
    map_reset(&l->by_address);
    map_reset(&l->by_name);
    l->pos = 0;
    l->line = (struct str){0};
    l->scan_error = 0;
}

static void legacy_done(struct legacy *l)
{
    mem_free(l->locations);
    mem_free(l->mappings);
    mem_free(l->functions);
    mem_free(l->samples);
    mem_free(l->refs);
    map_done(&l->by_address);
    map_done(&l->by_name);
    for (size_t i = 0; i < LEGACY_PATTERNS; i++)
        regex_free(l->patterns[i]);
    arena_done(&l->arena);
}

int pprof_legacy_decode(struct str data, size_t memory, struct batch **ret, struct err *e)
{
    static int (*const parsers[])(struct legacy *) = {legacy_cpu,    legacy_heap,       legacy_go_count,
                                                      legacy_thread, legacy_contention, legacy_java};
    struct legacy l = {.data = data, .e = e};
    int r = -ENOMSG;

    arena_init(&l.arena, memory);
    for (size_t i = 0; i < ARRAY_SIZE(parsers) && r == -ENOMSG; i++) {
        legacy_reset(&l);
        r = parsers[i](&l);
    }
    if (r == 0)
        r = legacy_finish(&l, memory, ret);
    else if (r == -ENOMSG)
        err_set(e, r, "unrecognized profile format");
    legacy_done(&l);
    return r;
}
