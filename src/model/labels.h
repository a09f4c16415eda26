/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A series' labels: the allow-listed resource attributes, sorted by name, with a 128-bit identity. Also the matchers
 * that select them: cpu{service.name="checkout",deployment.environment=~"prod.*"}.
 */
#ifndef MODEL_LABELS_H
#define MODEL_LABELS_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/str.h"

struct batch;
struct kvs;
struct resource;
struct value;

struct label {
    struct str name, value;
};

struct labels {
    struct label *v; /* sorted by name, no duplicates */
    uint32_t n;
};

/* service.name, service.namespace, service.version, deployment.environment[.name], host.name, k8s namespace and
 * workload. NULL-terminated. */
extern const char *const labels_default_allow[];

/* What OpenTelemetry's SDKs call a program without a name, "unknown_service:shop", is shop: as its profiler and its host call it. */
struct str labels_service(struct str name);
/* The labels of a resource, in arena. service.name falls back to process.executable.name, then "unknown_service". */
int labels_from_resource(const struct batch *b, const struct resource *r, const char *const *allow, struct arena *a,
                         struct labels *ret);
struct id128 labels_id(const struct labels *l);
struct str labels_get(const struct labels *l, struct str name); /* compares by label_name_eq() */
bool labels_eq(const struct labels *a, const struct labels *b);
/* Whether two spellings name the same label: '.', '-', '/' and '_' are equal, since Prometheus and Pyroscope allow only
 * the last of them. */
bool label_name_eq(struct str a, struct str b);
uint64_t label_name_hash(struct str name); /* equal for all spellings */
/* The value of the attribute of this name in any spelling, or NULL. */
const struct value *labels_find_kv(const struct kvs *kvs, struct str name);
/* service_name -> service.name for names that resources commonly have; others are returned unchanged. */
struct str label_canonical_name(struct str name);

enum match_op { MATCH_EQ, MATCH_NE, MATCH_RE, MATCH_NRE };

struct regex;

struct matcher {
    struct str name, value;
    enum match_op op;
    struct regex *regex; /* compiled, for RE and NRE; anchored at both ends */
};

struct selector {
    struct str type; /* canonical name, or empty */
    struct matcher *v;
    uint32_t n;
};

/* Parses TYPE{name="value",...}; either part may be missing. Names: [a-zA-Z_.][a-zA-Z0-9_.]* or quoted UTF-8. */
int selector_parse(struct str text, struct arena *a, struct selector *ret, struct err *e);
void selector_done(struct selector *s); /* frees the regexps */
/* Prints a selector in the form that selector_parse() reads. */
void selector_print(struct buf *out, const struct selector *s);
void selector_put_quoted(struct buf *out, struct str s); /* prints a name or a value */
bool selector_matches(const struct selector *s, const struct labels *l);
/* Whether one matcher matches one value. */
bool matcher_matches(const struct matcher *m, struct str value);

#endif
