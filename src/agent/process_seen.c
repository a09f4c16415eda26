/* SPDX-License-Identifier: Apache-2.0 */
/* Takes the command line and the environment of a process from the copy of a stack. */
#include "agent/process_seen.h"

#include <string.h>
#include <sys/stat.h>

#include "agent/bpf/agent_abi.h"
#include "agent/process.h"
#include "base/mem.h"

/* BPF sees users of the initial namespace. The agent prints the names that its own namespace has. */
static bool is_first_user_namespace(void)
{
    static const ino_t first = 0xeffffffd; /* PROC_USER_INIT_INO */
    static int known = -1;
    struct stat st;

    if (known < 0)
        known = stat("/proc/self/ns/user", &st) == 0 && st.st_ino == first;
    return known > 0;
}

/* The bytes [start, end) of the process's memory, as far as they were copied. */
static struct str part_of(const struct agent_stack *s, uint64_t start, uint64_t end)
{
    uint64_t first = s->task.arg_start;

    if (start < first || end <= start || end - first > s->task.n)
        return (struct str){0};
    return (struct str){(const char *) s->bytes + s->n + (start - first), (uint32_t) (end - start)};
}

static bool is_wanted(struct str line)
{
    return str_starts(line, STR("OTEL_SERVICE_NAME=")) || str_starts(line, STR("OTEL_RESOURCE_ATTRIBUTES="));
}

/* Copies the variables that are wanted, if to is not NULL; returns their length with the NULs that end them. */
static uint32_t copy_wanted(struct str environment, char *to)
{
    uint32_t n = 0;

    while (environment.n) {
        struct str line = str_cut(&environment, 0);

        if (!is_wanted(line))
            continue;
        if (to) {
            memcpy(to + n, line.p, line.n);
            to[n + line.n] = 0;
        }
        n += line.n + 1;
    }
    return n;
}

static struct process_seen *seen_new(struct str command, struct str environment)
{
    uint32_t n = copy_wanted(environment, NULL);
    struct process_seen *s = mem_alloc(sizeof *s + command.n + n);

    if (!s)
        return NULL;
    s->refs = 1;
    s->command = (struct str){s->bytes, command.n};
    s->environment = environment.p ? (struct str){s->bytes + command.n, n} : (struct str){0};
    memcpy(s->bytes, command.p, command.n);
    copy_wanted(environment, s->bytes + command.n);
    return s;
}

void process_seen_take(struct process *p, const struct agent_stack *s)
{
    const struct agent_task *t = &s->task;
    struct str command, environment;

    if (t->groups) {
        p->groups = t->groups;
        p->has_uid = is_first_user_namespace();
        p->uid = t->uid;
    }
    if (p->seen)
        return;
    command = part_of(s, t->arg_start, t->arg_end);
    environment = part_of(s, t->env_start, t->env_end);
    if (command.n)
        p->seen = seen_new(command, environment);
}

void process_seen_inherit(struct process *p, const struct process *parent)
{
    if (!parent->seen || p->seen)
        return;
    p->seen = parent->seen;
    p->seen->refs++;
}

void process_seen_unref(struct process_seen *s)
{
    if (s && --s->refs == 0)
        mem_free(s);
}
