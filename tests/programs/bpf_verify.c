/* SPDX-License-Identifier: Apache-2.0 */
/* bpf_verify FILE [PROGRAM...]: has the kernel verify each program of an object file of the agent alone. Prints "ok NAME
 * INSTRUCTIONS" (that the verifier processed), or "bad NAME" and the end of its log after it. "-NAME" in the list: not this one;
 * a trailing * stands for the rest of a name. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOG_BYTES = 16 << 20, LOG_LINES = 40, LOG_STATS = 4, LOG_STEPS = 1 };

static char text[LOG_BYTES];

static int silent(enum libbpf_print_level level, const char *fmt, va_list ap)
{
    (void) fmt, (void) ap;
    return (int) level - (int) level;
}

static int matches(const char *name, const char *pattern)
{
    size_t n = strlen(pattern);

    return n && pattern[n - 1] == '*' ? strncmp(name, pattern, n - 1) == 0 : strcmp(name, pattern) == 0;
}

static int wanted(const char *name, int n, char **patterns)
{
    int yes = n == 0 || patterns[0][0] == '-';

    for (int i = 0; i < n; i++) {
        if (patterns[i][0] == '-' && matches(name, patterns[i] + 1))
            yes = 0;
        else if (matches(name, patterns[i]))
            yes = 1;
    }
    return yes;
}

/* The maps that a kernel before 5.11 does not have belong to these programs alone. */
static void choose_maps(struct bpf_object *o, const char *program)
{
    static const char *const of_waits[] = {"waits", "switch_langs", "task_scratch"};
    int waits = strncmp(program, "on_switch", 9) == 0 || strcmp(program, "on_task") == 0;
    struct bpf_map *m;

    for (size_t i = 0; i < sizeof of_waits / sizeof *of_waits; i++)
        bpf_map__set_autocreate(bpf_object__find_map_by_name(o, of_waits[i]), waits);
    bpf_object__for_each_map(m, o)
    {
        if (bpf_map__map_flags(m) == BPF_F_NO_PREALLOC && bpf_map__type(m) == BPF_MAP_TYPE_HASH) {
            bpf_map__set_map_flags(m, 0); /* before 6.1 programs of perf events may not use the others */
            bpf_map__set_max_entries(m, 16);
        }
    }
}

static int load(const char *file, const char *name, int level)
{
    struct bpf_object *o = bpf_object__open(file);
    struct bpf_program *p;
    int r;

    if (!o)
        return -errno;
    text[0] = 0;
    bpf_object__for_each_program(p, o) bpf_program__set_autoload(p, strcmp(bpf_program__name(p), name) == 0);
    p = bpf_object__find_program_by_name(o, name);
    bpf_program__set_log_level(p, (__u32) level);
    bpf_program__set_log_buf(p, text, sizeof text);
    choose_maps(o, name);
    r = bpf_object__load(o);
    bpf_object__close(o);
    return r;
}

static void print_end(void)
{
    char *at = text + strlen(text);

    for (int lines = 0; at > text && lines <= LOG_LINES; at--)
        lines += at[-1] == '\n';
    printf("%s\n", at);
}

static int verify(const char *file, const char *name)
{
    const char *count;
    int r = load(file, name, LOG_STATS);

    if (r < 0) {
        r = load(file, name, LOG_STEPS | LOG_STATS);
        printf("bad %s %s\n", name, strerror(-r));
        print_end();
        return 1;
    }
    count = strstr(text, "processed ");
    printf("ok %s %d\n", name, count ? atoi(count + 10) : -1);
    return 0;
}

int main(int argc, char **argv)
{
    struct bpf_object *o;
    struct bpf_program *p;
    int bad = 0;

    libbpf_set_print(silent);
    o = argc > 1 ? bpf_object__open(argv[1]) : NULL;
    if (!o)
        return 2;
    bpf_object__for_each_program(p, o)
    {
        const char *name = bpf_program__name(p);

        if (wanted(name, argc - 2, argv + 2))
            bad |= verify(argv[1], name);
        fflush(stdout);
    }
    bpf_object__close(o);
    return bad;
}
