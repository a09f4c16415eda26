/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the rules that choose processes, and evaluates them for a process. */
#include "agent/filter.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

#include "agent/identity.h"
#include "agent/process.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/regex.h"

enum filter_field { FIELD_PID, FIELD_PPID, FIELD_NAME, FIELD_EXE, FIELD_CGROUP, FIELD_USER, FIELD_SERVICE, FIELDS };
enum { RULES_MAX = 1024, WEIGHT_MAX = 1000000 };

static const char *const field_names[FIELDS] = {"pid", "ppid", "name", "exe", "cgroup", "user", "service"};

struct filter_rule {
    enum filter_field field;
    bool include;
    uint32_t weight;
    char *text; /* for "=" */
    struct regex *regex;
};

struct filter {
    struct filter_rule *v;
    size_t n, cap;
    bool has_include;
};

int filter_new(struct filter **ret)
{
    *ret = mem_zalloc(sizeof **ret);
    return *ret ? 0 : -ENOMEM;
}

void filter_free(struct filter *f)
{
    if (!f)
        return;
    for (size_t i = 0; i < f->n; i++) {
        mem_free(f->v[i].text);
        regex_free(f->v[i].regex);
    }
    mem_free(f->v);
    mem_free(f);
}

static int parse_field(struct str name, enum filter_field *ret)
{
    for (int i = 0; i < FIELDS; i++)
        if (str_is(name, field_names[i])) {
            *ret = (enum filter_field) i;
            return 0;
        }
    return -EINVAL;
}

/* "/N" at the end of a rule. */
static struct str cut_weight(struct str s, uint32_t *ret)
{
    uint64_t n;

    for (uint32_t i = s.n; i-- > 0;) {
        if (s.p[i] != '/')
            continue;
        if (str_to_u64(str_slice(s, i + 1, s.n), 10, &n) == 0 && n >= 1 && n <= WEIGHT_MAX) {
            *ret = (uint32_t) n;
            return str_slice(s, 0, i);
        }
        break;
    }
    return s;
}

int filter_add(struct filter *f, bool include, struct str text, struct err *e)
{
    struct filter_rule rule = {.include = include, .weight = 1};
    uint32_t at = 0;
    struct str value;
    int r;

    while (at < text.n && text.p[at] != '=' && text.p[at] != '~')
        at++;
    if (at == text.n || parse_field(str_slice(text, 0, at), &rule.field) < 0)
        return err_set(e, -EINVAL,
                       "'%.*s' is not a rule; expected, for example, name=nginx or cgroup~kubepods.* (fields: pid, "
                       "ppid, name, exe, cgroup, user, service)",
                       STR_FMT(text));
    value = cut_weight(str_slice(text, at + 1, text.n), &rule.weight);
    r = array_reserve(f->v, f->cap, f->n + 1, RULES_MAX);
    if (r < 0)
        return r;
    if (text.p[at] == '~')
        r = regex_new(value, &rule.regex, e);
    else if (!(rule.text = mem_zalloc(value.n + 1u)))
        r = -ENOMEM;
    else
        memcpy(rule.text, value.p, value.n);
    if (r < 0)
        return r;
    f->v[f->n++] = rule;
    f->has_include |= include;
    return 0;
}

/* --- evaluation --- */
static void read_text(uint32_t pid, const char *name, char *ret, size_t size)
{
    char path[64];
    _cleanup_(fd_closep) int fd = -1;
    ssize_t n = 0;

    snprintf(path, sizeof path, "/proc/%u/%s", pid, name);
    fd = fd_open(AT_FDCWD, path, O_RDONLY, 0);
    if (fd >= 0)
        n = fd_read(fd, ret, size - 1);
    ret[n > 0 ? n : 0] = 0;
}

static void user_of(uint32_t pid, char *ret, size_t size)
{
    char path[64];
    struct stat st;
    struct passwd *pw;

    snprintf(path, sizeof path, "/proc/%u", pid);
    if (stat(path, &st) < 0)
        return;
    pw = getpwuid(st.st_uid);
    if (pw)
        snprintf(ret, size, "%s", pw->pw_name);
    else
        snprintf(ret, size, "%u", (unsigned) st.st_uid);
}

static void value_of(enum filter_field field, struct process *p, char *ret, size_t size)
{
    *ret = 0;
    switch (field) {
    case FIELD_PID:
        snprintf(ret, size, "%u", p->pid);
        break;
    case FIELD_PPID:
        snprintf(ret, size, "%u", p->ppid);
        break;
    case FIELD_NAME:
        snprintf(ret, size, "%s", p->comm);
        break;
    case FIELD_EXE:
        snprintf(ret, size, "%s", p->exe_path ? p->exe_path : "");
        break;
    case FIELD_CGROUP:
        read_text(p->pid, "cgroup", ret, size);
        break;
    case FIELD_USER:
        user_of(p->pid, ret, size);
        break;
    default:
        if (p->number)
            identity_update(p);
        if (p->identity)
            snprintf(ret, size, "%s", identity_service(p->identity));
    }
}

static bool rule_matches(const struct filter_rule *r, struct process *p)
{
    char value[4096];
    const char *base;

    value_of(r->field, p, value, sizeof value);
    if (r->regex)
        return regex_search(r->regex, str_from(value));
    if (r->field == FIELD_CGROUP)
        return strstr(value, r->text);
    base = strrchr(value, '/');
    return strcmp(value, r->text) == 0 || (r->field == FIELD_EXE && base && strcmp(base + 1, r->text) == 0);
}

uint32_t filter_weight(const struct filter *f, struct process *p)
{
    for (size_t i = 0; i < f->n; i++)
        if (rule_matches(&f->v[i], p))
            return f->v[i].include ? f->v[i].weight : 0;
    return f->has_include ? 0 : 1;
}
