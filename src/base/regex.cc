/* SPDX-License-Identifier: Apache-2.0 */
/* The C interface of regex.h over RE2, which has none: the only C++ file in wick. No exception leaves this file. */
extern "C" {
#include "base/regex.h"
}

#include <errno.h>
#include <re2/re2.h>

#include <new>

struct regex {
    RE2 re;
    explicit regex(re2::StringPiece p, const RE2::Options &o) : re(p, o)
    {
    }
};

static re2::StringPiece piece(struct str s)
{
    return re2::StringPiece(s.p ? s.p : "", s.n);
}

static const char *go_words(RE2::ErrorCode code)
{
    switch (code) {
    case RE2::ErrorBadEscape:
        return "invalid escape sequence";
    case RE2::ErrorBadCharClass:
        return "invalid character class";
    case RE2::ErrorBadCharRange:
        return "invalid character class range";
    case RE2::ErrorMissingBracket:
        return "missing closing ]";
    case RE2::ErrorMissingParen:
        return "missing closing )";
    case RE2::ErrorUnexpectedParen:
        return "unexpected )";
    case RE2::ErrorTrailingBackslash:
        return "trailing backslash at end of expression";
    case RE2::ErrorRepeatArgument:
        return "missing argument to repetition operator";
    case RE2::ErrorRepeatSize:
        return "invalid repeat count";
    case RE2::ErrorRepeatOp:
        return "invalid nested repetition operator";
    case RE2::ErrorBadPerlOp:
        return "invalid or unsupported Perl syntax";
    case RE2::ErrorBadUTF8:
        return "invalid UTF-8";
    case RE2::ErrorBadNamedCapture:
        return "invalid named capture";
    default:
        return "expression too large";
    }
}

static int compile(struct str pattern, bool go, struct regex **ret, struct err *e)
{
    RE2::Options o;
    struct regex *r;

    o.set_log_errors(false);
    o.set_max_mem(8 << 20);
    r = new (std::nothrow) regex(piece(pattern), o);
    if (!r)
        return -ENOMEM;
    if (!r->re.ok()) {
        if (go)
            err_set(e, -EINVAL, "error parsing regexp: %s: `%s`", go_words(r->re.error_code()),
                    r->re.error_arg().c_str());
        else
            err_set(e, -EINVAL, "bad regular expression '%.*s': %s", STR_FMT(pattern), r->re.error().c_str());
        delete r;
        return -EINVAL;
    }
    *ret = r;
    return 0;
}

int regex_new(struct str pattern, struct regex **ret, struct err *e)
{
    return compile(pattern, false, ret, e);
}

int regex_new_go(struct str pattern, struct regex **ret, struct err *e)
{
    return compile(pattern, true, ret, e);
}

void regex_free(struct regex *r)
{
    delete r;
}

bool regex_search(const struct regex *r, struct str text)
{
    return RE2::PartialMatch(piece(text), r->re);
}

bool regex_full(const struct regex *r, struct str text)
{
    return RE2::FullMatch(piece(text), r->re);
}

bool regex_find(const struct regex *r, struct str text, size_t from, size_t *start, size_t *end, struct str *groups,
                int n_groups)
{
    enum { GROUPS_MAX = 16 };
    re2::StringPiece t = piece(text), m[GROUPS_MAX + 1];
    int n = n_groups < GROUPS_MAX ? n_groups : GROUPS_MAX;

    if (from > text.n || !r->re.Match(t, from, text.n, RE2::UNANCHORED, m, n + 1))
        return false;
    *start = (size_t) (m[0].data() - t.data());
    *end = *start + m[0].size();
    for (int i = 0; i < n_groups; i++)
        groups[i] = i < n && m[i + 1].data() ? (struct str){m[i + 1].data(), (uint32_t) m[i + 1].size()}
                                             : (struct str){NULL, 0};
    return true;
}

int regex_group_count(const struct regex *r)
{
    return r->re.NumberOfCapturingGroups();
}

const char *regex_group_name(const struct regex *r, int i)
{
    const auto &names = r->re.CapturingGroupNames();
    auto it = names.find(i);

    return it == names.end() ? "" : it->second.c_str();
}
