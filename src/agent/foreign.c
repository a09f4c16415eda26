/* SPDX-License-Identifier: Apache-2.0 */
/* Recognises runtimes by the names of the executable and the libraries that a process has mapped. */
#include "agent/foreign.h"

#include "agent/process.h"

static const struct {
    const char *name;
    enum foreign is;
} files[] = {
    {"ruby", FOREIGN_RUBY},   {"libruby", FOREIGN_RUBY},  {"php", FOREIGN_PHP},          {"libphp", FOREIGN_PHP},
    {"mod_php", FOREIGN_PHP}, {"perl", FOREIGN_PERL},     {"libperl", FOREIGN_PERL},     {"lua", FOREIGN_LUA},
    {"liblua", FOREIGN_LUA},  {"python", FOREIGN_PYTHON}, {"libpython", FOREIGN_PYTHON},
};

const char *foreign_name(enum foreign f)
{
    static const char *const names[FOREIGN_KINDS] = {
        "", "", "Ruby", "PHP", "Perl", "Lua", "Python of an unsupported version (3.9 to 3.14 are supported)"};

    return names[f];
}

/* Only a version or a file extension may follow the name: "ruby3.1", "libphp8.so", but not "perltidy". */
enum foreign foreign_of_file(struct str path)
{
    struct str base = path;

    for (uint32_t i = path.n; i > 0; i--)
        if (path.p[i - 1] == '/') {
            base = str_slice(path, i, path.n);
            break;
        }
    for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
        struct str name = str_from(files[i].name), rest;

        if (!str_starts(base, name))
            continue;
        rest = str_slice(base, name.n, base.n);
        if (!rest.n || (rest.p[0] >= '0' && rest.p[0] <= '9') || rest.p[0] == '.' || rest.p[0] == '-')
            return files[i].is;
        if (str_is(rest, "jit") || str_starts(rest, STR("jit-")))
            return files[i].is;
    }
    return FOREIGN_NONE;
}

/* Supported versions of Python 3 have the same file names as others: which one it is shows when the agent attaches to the
 * process, which it does when there is time for it. Until then nothing is said about it. */
enum foreign foreign_find(const struct process *p)
{
    struct str exe = p->exe_path ? str_from(p->exe_path) : (struct str){0};
    enum foreign f = foreign_of_file(exe);

    if (p->lang)
        return FOREIGN_NONE;
    for (uint32_t i = 0; f == FOREIGN_NONE && i < p->n_mappings; i++) {
        struct str path = p->mappings[i].path ? str_from(p->mappings[i].path) : (struct str){0};

        if (str_find(path, STR("/lib")) >= 0 || str_find(path, STR("mod_php")) >= 0)
            f = foreign_of_file(exe = path);
    }
    if (str_find(exe, STR("python2")) >= 0)
        return f;
    return f == FOREIGN_PYTHON && !p->lang_refused ? FOREIGN_UNKNOWN : f;
}
