/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query_findings() of findings.h. A rule's `match` says which frames are evidence; stacks that contain one count once,
 * by the outermost. `blame` says which frames of the stack are named as the cause: those that match themselves, or the
 * nearest caller that does not, which is the line of the program to look at.
 *
 * Functions of Python's libraries are compared with the name of their module as well, which is made from the file's path: "re.compile"
 * for compile() of lib/python3.11/re/__init__.py.
 */
#include "query/findings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "query/query_names.h"

enum blame { BLAME_MATCH, BLAME_CALLER };

static const struct finding_rule {
    const char *name, *title;
    const char *types; /* of profiles, with spaces around them */
    const char *match; /* regular expression on whole names of functions */
    enum blame blame;
    double from, warn; /* shares */
    const char *advice;
} rules[] = {
    {"gc", "Garbage collection", " cpu wall ",
     "runtime\\.gcBgMarkWorker(\\.func\\d+)?|runtime\\.gcAssistAlloc\\d?|runtime\\.bgsweep|runtime\\.gcDrain\\w*|"
     "runtime\\.\\(\\*gcWork\\)\\..*|"
     "(G1|Parallel|Shenandoah|Z|PSScavenge|PSParallelCompact|SerialHeap|GenCollect)\\w*(::.*)?([Cc]ollect|[Mm]ark|[Ee]vacuat|[Ss]cavenge).*|"
     "gc_collect_main|gc_collect_generations|_PyGC_Collect.*|collect\\.constprop\\.\\d+|gc_collect_with_callback|"
     "v8::internal::(Heap::CollectGarbage|Scavenger.*|MarkCompactCollector.*|MinorMarkCompact.*)|"
     "gc_marks\\w*|gc_sweep\\w*|rb_gc_\\w+|GC_mark\\w*|mono_gc_\\w+|sgen_\\w+|WKS::gc_heap::.*|SVR::gc_heap::.*",
     BLAME_MATCH, 0.10, 0.25, "allocate less (see the alloc profile) or give the heap more room"},
    {"regexp_compile", "Regular expressions compiled while running", " cpu wall ",
     "regexp\\.(Must)?Compile(POSIX)?|regexp/syntax\\.Parse|re\\._?compile|sre_compile\\.compile|"
     "re\\._compiler\\.compile|regex\\.(_regex_core|regex)\\._?compile|java\\.util\\.regex\\.Pattern\\.compile|re2::RE2::(Init|RE2).*|pcre2?_compile(_8)?|regcomp|"
     "std::(__cxx11::)?basic_regex<.*>::(basic_regex|assign|_M_compile).*|regex::(builders::)?.*Regex(Builder)?::(new|build)|rb_reg_(new|regcomp).*",
     BLAME_CALLER, 0.01, 0.05, "compile the expression once and keep it"},
    {"lock_convoy", "Waiting for locks", " cpu wall offcpu lock ",
     "runtime\\.(lock2|unlock2|(un)?lock(WithRank)?|semacquire1?|futex(sleep|wakeup)?)|sync\\.\\(\\*(RW)?Mutex\\)\\..*[lL]ock(Slow)?|"
     "__lll_lock_wait(_private)?|__GI___lll_lock_wait|futex_wait(_\\w+)?|do_futex|__x64_sys_futex|"
     "native_queued_spin_lock_slowpath|_raw_spin_lock\\w*|osq_lock|rwsem_\\w*slowpath|mutex_spin_on_owner|__mutex_lock.*|"
     "ObjectMonitor::(enter|EnterI|TrySpin).*|Unsafe_Park|take_gil|PyEval_RestoreThread|parking_lot.*::lock_slow|"
     "pthread_mutex_lock|___pthread_mutex_lock|pthread_rwlock_\\w*lock|std::mutex::lock",
     BLAME_CALLER, 0.05, 0.20, "hold the lock for a shorter time, or split it"},
    {"malloc_churn", "Allocation and freeing", " cpu wall ",
     "(__libc_|__GI___libc_|je_|tc_|mi_)?(malloc|calloc|realloc|c?free|memalign)|_int_(malloc|free|realloc)|malloc_consolidate|unlink_chunk.*|"
     "operator (new|delete).*|runtime\\.(mallocgc\\w*|newobject|makeslice|growslice)|"
     "tcmalloc::.*|je_arena_.*|__rust_(alloc|dealloc|realloc)|_PyObject_(Malloc|Free|Realloc)|PyObject_(Malloc|Free)|SharedRuntime::.*allocate.*",
     BLAME_CALLER, 0.10, 0.25, "reuse buffers, or allocate in larger pieces"},
    {"page_faults", "Page faults in the kernel", " cpu wall ",
     "(asm_)?exc_page_fault|do_user_addr_fault|handle_mm_fault|__handle_mm_fault|do_anonymous_page|clear_page_\\w+|do_fault|do_page_fault|"
     "do_mem_abort|el0_da|clear_huge_page",
     BLAME_CALLER, 0.03, 0.10, "reuse memory instead of returning it to the kernel, or use huge pages"},
    {"serialisation", "JSON and other serialisation", " cpu wall alloc ",
     "encoding/(json|xml|gob|csv)\\..*|encoding/json/.*|(github\\.com/(json-iterator/go|bytedance/sonic|goccy/go-json))\\..*|"
     "google\\.golang\\.org/protobuf/.*|(simple|u|or)?json\\.(loads|dumps|load|dump|(encoder|decoder|scanner)\\..*)|.*JSON(Decoder|Encoder).*|"
     "com\\.fasterxml\\.jackson\\..*|com\\.google\\.gson\\..*|"
     "serde_json::.*|rapidjson::.*|nlohmann::.*json.*|simdjson::.*|JsonParse\\w*|JsonStringif\\w*|v8::internal::Json.*|"
     "google::protobuf::.*|json_(encode|decode|parse|dump|loads|tokener)\\w*|cJSON_\\w+|yajl_\\w+|pickle\\.(loads|dumps|load|dump)|_pickle\\..*|yaml\\..*",
     BLAME_CALLER, 0.10, 0.30, "encode less often, keep the encoded form, or use a faster format"},
};

struct finding_name {
    struct str name;
    double value;
};

struct finding_look {
    const struct finding_rule *rule;
    const struct tree *tree;
    uint8_t *frames, *hit; /* per frame, per node: matches; is below a match */
    struct finding_name *names;
    size_t n_names, cap_names;
    double value;
};

static struct str name_of(const struct tree *t, uint32_t node)
{
    const struct frame *f = &t->frames[t->frame[node]];

    return f->function.n ? f->function : f->mapping.n ? f->mapping : STR("[unknown]");
}

/* The frame to blame for a match at this node. */
static uint32_t blamed(const struct finding_look *x, uint32_t node)
{
    uint32_t p = x->tree->parent[node];

    if (x->rule->blame == BLAME_MATCH || !p || p == TREE_NONE)
        return node;
    return p;
}

static int add_name(struct finding_look *x, struct str name, double v)
{
    for (size_t i = 0; i < x->n_names; i++)
        if (str_eq(x->names[i].name, name)) {
            x->names[i].value += v;
            return 0;
        }
    return array_push(x->names, x->n_names, x->cap_names, 1 << 20, (struct finding_name){name, v});
}

static int largest_name_first(const void *a, const void *b)
{
    const struct finding_name *x = a, *y = b;

    if (x->value != y->value)
        return x->value < y->value ? 1 : -1;
    return str_cmp(x->name, y->name);
}

/* Adds up the outermost matches. */
static int look(struct finding_look *x)
{
    const struct tree *t = x->tree;
    int r = 0;

    x->n_names = 0;
    x->value = 0;
    for (uint32_t i = 1; r == 0 && i < t->n_nodes; i++) {
        bool above = x->hit[t->parent[i]];

        x->hit[i] = above || x->frames[t->frame[i]];
        if (!x->hit[i] || above || !t->total[0][i])
            continue;
        x->value += (double) t->total[0][i];
        r = add_name(x, name_of(t, blamed(x, i)), (double) t->total[0][i]);
    }
    if (x->n_names)
        qsort(x->names, x->n_names, sizeof *x->names, largest_name_first);
    return r;
}

static int report(struct finding_look *x, struct findings *f)
{
    const struct finding_rule *rule = x->rule;
    double whole = (double) f->total, share = x->value / whole;
    struct finding *to = &f->v[f->n];

    if (share < rule->from)
        return 0;
    *to = (struct finding){.rule = rule->name,
                           .title = rule->title,
                           .warning = share >= rule->warn,
                           .share = share,
                           .rank = share / rule->from,
                           .frames = arena_zalloc_array(&f->arena, FINDING_FRAMES, sizeof *to->frames)};
    if (!to->frames)
        return -ENOMEM;
    for (; to->n_frames < FINDING_FRAMES && to->n_frames < x->n_names; to->n_frames++) {
        to->frames[to->n_frames].function = arena_str(&f->arena, x->names[to->n_frames].name);
        to->frames[to->n_frames].share = x->names[to->n_frames].value / whole;
    }
    snprintf(to->sentence, sizeof to->sentence, "%s: %.1f %% of %.*s, %s %.*s%s; %s.", rule->title, 100 * share,
             STR_FMT(f->type), rule->blame == BLAME_CALLER ? "mostly called by" : "mostly in",
             STR_FMT(str_slice(to->frames[0].function, 0, 100)), x->n_names > 1 ? " and others" : "", rule->advice);
    f->n++;
    return f->arena.failed ? -ENOMEM : 0;
}

/* "json.encoder.JSONEncoder.encode", for a function of Python's library or of an installed package; else empty. */
static struct str python_name(const struct frame *f, char *ret, size_t size)
{
    struct str path = frame_file(f);
    ptrdiff_t at = str_find(path, STR("/python3."));
    int n;

    if (at < 0 || !str_ends(path, STR(".py")))
        return (struct str){0};
    path = str_slice(path, (size_t) at + 9, path.n - 3);
    str_cut(&path, '/'); /* the minor version */
    if (str_starts(path, STR("site-packages/")) || str_starts(path, STR("dist-packages/")))
        path = str_slice(path, 14, path.n);
    if (str_ends(path, STR("/__init__")))
        path = str_slice(path, 0, path.n - 9);
    n = snprintf(ret, size, "%.*s.%.*s", STR_FMT(path), STR_FMT(f->function));
    if (n < 0 || (size_t) n >= size)
        return (struct str){0};
    for (uint32_t i = 0; i < path.n; i++)
        if (ret[i] == '/')
            ret[i] = '.';
    return (struct str){ret, (uint32_t) n};
}

static bool is_evidence(struct regex *re, const struct frame *f)
{
    char text[400];
    struct str python;

    if (!f->function.n)
        return false;
    if (regex_full(re, f->function))
        return true;
    python = python_name(f, text, sizeof text);
    return python.n && regex_full(re, python);
}

static int run_rule(struct finding_look *x, struct findings *f, struct err *e)
{
    const struct tree *t = x->tree;
    struct regex *re;
    bool any = false;
    int r = regex_new(str_from(x->rule->match), &re, e);

    if (r < 0)
        return r;
    for (uint32_t i = 1; i < t->n_frames; i++)
        any |= x->frames[i] = is_evidence(re, &t->frames[i]);
    regex_free(re);
    if (!any)
        return 0;
    x->hit[0] = 0;
    r = look(x);
    return r < 0 ? r : report(x, f);
}

static bool applies(const struct finding_rule *rule, struct str type)
{
    char word[40];

    snprintf(word, sizeof word, " %.*s ", (int) MIN(type.n, 30u), type.p ? type.p : "");
    return str_find(str_from(rule->types), str_from(word)) >= 0;
}

static int by_rank(const void *a, const void *b)
{
    const struct finding *x = a, *y = b;

    return (x->rank < y->rank) - (x->rank > y->rank);
}

static int run_rules(const struct tree *t, struct findings *f, struct err *e)
{
    struct finding_look x = {.tree = t};
    int r = 0;

    x.frames = arena_zalloc_array(&f->arena, t->n_frames + 1, 1);
    x.hit = arena_zalloc_array(&f->arena, t->n_nodes + 1, 1);
    f->v = arena_zalloc_array(&f->arena, ARRAY_SIZE(rules), sizeof *f->v);
    if (f->arena.failed)
        return -ENOMEM;
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(rules); i++) {
        x.rule = &rules[i];
        if (applies(x.rule, f->type))
            r = run_rule(&x, f, e);
    }
    mem_free(x.names);
    if (f->n)
        qsort(f->v, f->n, sizeof *f->v, by_rank);
    return r;
}

int query_findings(struct store *s, struct query *q, struct findings *ret, struct err *e)
{
    _cleanup_(tree_freep) struct tree *t = NULL;
    struct store_query sq = q->q;
    int r;

    *ret = (struct findings){0};
    arena_init(&ret->arena, 0);
    sq.columns[0] = q->q.columns[q->is_diff];
    sq.n_columns = 1;
    sq.max_nodes = 0;
    sq.min_share = 0;
    sq.by = BY_FILEFUNCTION;
    r = named_select(&(struct named_store){s, q->names}, &sq, &t, e);
    if (r == 0) {
        ret->total = t->total[0][0];
        ret->type = arena_str(&ret->arena, t->type);
        ret->unit = arena_str(&ret->arena, t->unit);
    }
    if (r == 0 && ret->total > 0)
        r = run_rules(t, ret, e);
    if (r < 0)
        findings_done(ret);
    return r;
}

void findings_done(struct findings *f)
{
    arena_done(&f->arena);
    *f = (struct findings){0};
}
