/* SPDX-License-Identifier: Apache-2.0 */
/* Derives a service's name from its command line. Arguments come from arbitrary processes: every part is optional, and
 * nothing is copied. */
#include "agent/service_name.h"

enum { NAME_MAX_BYTES = 200 };

struct interpreter {
    const char *name;    /* the name of the executable begins with this */
    const char *module;  /* the option whose value is the name: -m; NULL: none */
    const char *inlined; /* options whose value is code: then there is no script. Separated by spaces */
    const char *valued;  /* options that take the next argument */
    bool is_class;       /* the first non-option is a class: its name is used unchanged */
};

static const struct interpreter interpreters[] = {
    {"python", "-m", "-c", "-W -X -Q --check-hash-based-pycs", false},
    {"pypy", "-m", "-c", "-W -X", false},
    {"node", NULL, "-e --eval -p --print", "-r --require --import --loader --experimental-loader -C --conditions",
     false},
    {"java", "-jar", "",
     "-cp -classpath --class-path -p --module-path --add-modules --add-opens --add-exports -agentpath", true},
    {"ruby", NULL, "-e", "-I -r -C -E", false},
    {"perl", NULL, "-e -E", "-I", false},
    {"php", NULL, "-r -B -R -E", "-c -d -z -S -t", false},
    {"lua", NULL, "-e", "-l", false},
    {"bash", NULL, "-c", "-o -O --rcfile --init-file", false},
    {"dash", NULL, "-c", "-o", false},
    {"sh", NULL, "-c", "-o", false},
};

static struct str base_name(struct str path)
{
    for (uint32_t i = path.n; i > 0; i--)
        if (path.p[i - 1] == '/')
            return str_slice(path, i, path.n);
    return path;
}

static bool is_one_of(struct str word, const char *list)
{
    struct str rest = str_from(list);

    while (rest.n)
        if (str_eq(str_cut(&rest, ' '), word))
            return true;
    return false;
}

/* "python3.11" is python, "javac" is not java: what follows is a version. */
static const struct interpreter *find_interpreter(struct str exe)
{
    for (size_t i = 0; i < ARRAY_SIZE(interpreters); i++) {
        struct str name = str_from(interpreters[i].name), rest;

        if (!str_starts(exe, name))
            continue;
        rest = str_slice(exe, name.n, exe.n);
        while (rest.n && ((rest.p[0] >= '0' && rest.p[0] <= '9') || rest.p[0] == '.' || rest.p[0] == '-'))
            rest = str_slice(rest, 1, rest.n);
        if (!rest.n || str_is(rest, "js")) /* nodejs */
            return &interpreters[i];
    }
    return NULL;
}

/* A file's base name without the extension of a script. */
static struct str script_name(struct str path)
{
    static const char *const ends[] = {".py", ".pyc", ".js",  ".mjs", ".cjs", ".ts",
                                       ".rb", ".pl",  ".php", ".lua", ".sh",  ".jar"};
    struct str s = base_name(path);

    for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
        if (str_ends(s, str_from(ends[i])) && s.n > strlen(ends[i]))
            return str_slice(s, 0, s.n - (uint32_t) strlen(ends[i]));
    return s;
}

/* A script that the interpreter reads from a descriptor, as in `bash <(generate)`: its path is not a name. */
static bool is_descriptor(struct str path)
{
    return str_starts(path, STR("/dev/fd/")) || str_starts(path, STR("/proc/")) || str_is(path, "/dev/stdin");
}

/* What the interpreter runs; empty when that is code on its command line, or its standard input. */
static struct str what_is_run(const struct interpreter *x, struct str args)
{
    while (args.n) {
        struct str word = str_cut(&args, 0);

        if (!word.n || str_is(word, "-"))
            return (struct str){0};
        if (x->module && str_is(word, x->module)) {
            struct str value = str_cut(&args, 0);

            return x->is_class ? script_name(value) : value;
        }
        if (is_one_of(word, x->inlined))
            return (struct str){0};
        if (is_one_of(word, x->valued)) {
            str_cut(&args, 0);
            continue;
        }
        if (word.p[0] != '-')
            return x->is_class ? word : is_descriptor(word) ? (struct str){0} : script_name(word);
    }
    return (struct str){0};
}

/* argv[0] as titles are written: "nginx: master process", "-bash", "postgres: checkpointer". A program that was started
 * through a link in /proc (/proc/self/exe) has no name there. */
static struct str title_name(struct str argv0)
{
    struct str s = argv0;

    if (str_starts(s, STR("/proc/")))
        return (struct str){0};
    for (uint32_t i = 0; i < s.n; i++)
        if (s.p[i] == ' ' || (s.p[i] == ':' && (i + 1 == s.n || s.p[i + 1] == ' '))) {
            s.n = i;
            break;
        }
    s = base_name(s);
    return s.n && s.p[0] == '-' ? str_slice(s, 1, s.n) : s;
}

bool service_script_of(struct str command, struct str exe, struct service_script *ret)
{
    struct str argv0 = str_cut(&command, 0);
    const struct interpreter *x = find_interpreter(exe.n ? exe : title_name(argv0));

    *ret = (struct service_script){0};
    if (!x)
        return false;
    while (command.n) {
        struct str word = str_cut(&command, 0);

        if (!word.n || str_is(word, "-") || is_one_of(word, x->inlined))
            return true;
        if (x->module && str_is(word, x->module)) {
            ret->path = str_cut(&command, 0);
            ret->is_module = !x->is_class;
            return true;
        }
        if (is_one_of(word, x->valued)) {
            str_cut(&command, 0);
        } else if (word.p[0] != '-') {
            if (!x->is_class && !is_descriptor(word))
                ret->path = word;
            return true;
        }
    }
    return true;
}

struct str service_name_of(struct str command, struct str exe)
{
    struct str argv0 = str_cut(&command, 0), name = title_name(argv0), run = {0};
    const struct interpreter *x = find_interpreter(exe.n ? exe : name);

    if (x && argv0.n)
        run = what_is_run(x, command);
    if (run.n && run.n <= NAME_MAX_BYTES)
        return run;
    return name.n && name.n <= NAME_MAX_BYTES ? name : exe;
}
