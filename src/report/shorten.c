/* SPDX-License-Identifier: Apache-2.0 */
/* Shortens function names (shorten.h). The four expressions match the long names of each language, as in pprof. */
#include "report/shorten.h"

#include <errno.h>

int shortener_init(struct shortener *s)
{
    *s = (struct shortener){0};
    if (regex_new(STR("^(.*?)/v(?:[2-9]|[1-9][0-9]+)([./].*)$"), &s->version, NULL) < 0 ||
        regex_new(STR("^(?:[\\w\\-\\.]+\\/)+([^.]+\\..+)"), &s->go, NULL) < 0 ||
        regex_new(STR("^(?:[a-z]\\w*\\.)*([A-Z][\\w\\$]*\\.(?:<init>|[a-z][\\w\\$]*(?:\\$\\d+)?))(?:(?:\\()|$)"),
                  &s->java, NULL) < 0 ||
        regex_new(STR("^(?:[_a-zA-Z]\\w*::)+(_*[A-Z]\\w*::~?[_a-zA-Z]\\w*(?:<.*>)?)"), &s->cpp, NULL) < 0) {
        shortener_done(s);
        return -ENOMEM;
    }
    return 0;
}

void shortener_done(struct shortener *s)
{
    regex_free(s->version);
    regex_free(s->go);
    regex_free(s->java);
    regex_free(s->cpp);
    *s = (struct shortener){0};
}

struct str shorten_name(const struct shortener *s, struct str name, struct arena *a)
{
    const struct regex *forms[] = {s->go, s->java, s->cpp};
    struct str groups[2];
    size_t start, end;

    if (str_starts(name, STR("(anonymous namespace)::")))
        name = str_slice(name, sizeof("(anonymous namespace)::") - 1, name.n);
    if (regex_find(s->version, name, 0, &start, &end, groups, 2)) {
        char *joined = arena_printf(a, "%.*s%.*s", STR_FMT(groups[0]), STR_FMT(groups[1]));

        if (joined)
            name = str_from(joined);
    }
    for (size_t i = 0; i < ARRAY_SIZE(forms); i++)
        if (regex_find(forms[i], name, 0, &start, &end, groups, 1))
            return groups[0];
    return name;
}
