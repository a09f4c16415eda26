/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the attributes of a process from /proc, its environment, its control group and the files of container runtimes.
 * Attributes are added in order of precedence: the first value of a key is kept. */
#include "agent/identity_read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "agent/cgroup.h"
#include "agent/container_files.h"
#include "agent/process_context.h"
#include "agent/process_seen.h"
#include "agent/program_version.h"
#include "agent/service_name.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "model/semconv.h"
#include "proc/proc_path.h"

enum {
    MEMORY_MAX = 1 << 20,
    ENVIRON_MAX = 1 << 20,
    FILE_MAX = 1 << 16,
    MAPS_MAX = 16 << 20,
    VALUE_MAX = 4096,
    PATH_SIZE = 4096,
    STEP = 16 << 10,
};

struct proc_reader {
    const struct identity_source *s;
    struct identity_attrs *a;
    struct cgroup_names cgroup;
    struct container_names container;
    struct str name; /* of its command */
    struct service_script script;
    bool is_script; /* an interpreter runs it */
    int dir;        /* PROC/PID; -1: not open yet; -2: it is gone */
    int err;
};

void identity_attrs_done(struct identity_attrs *a)
{
    arena_done(&a->arena);
    a->n = 0;
}

struct str identity_attrs_get(const struct identity_attrs *a, struct str key)
{
    for (uint32_t i = 0; i < a->n; i++)
        if (str_eq(a->v[i].key, key))
            return value_str(&a->v[i].value);
    return (struct str){0};
}

static bool has(const struct proc_reader *r, struct str key)
{
    for (uint32_t i = 0; i < r->a->n; i++)
        if (str_eq(r->a->v[i].key, key))
            return true;
    return false;
}

static void put_value(struct proc_reader *r, struct str key, struct value v)
{
    struct str k;

    if (r->a->n == IDENTITY_ATTRS || !key.n || key.n > VALUE_MAX || has(r, key))
        return;
    k = arena_str(&r->a->arena, key);
    if (v.kind == VALUE_STR) {
        struct str s = arena_str(&r->a->arena, (struct str){v.str, MIN(v.n, (uint32_t) VALUE_MAX)});

        v.str = s.p;
        v.n = s.n;
    }
    if (!k.p || (v.kind == VALUE_STR && !v.str)) {
        r->err = -ENOMEM;
        return;
    }
    r->a->v[r->a->n++] = (struct kv){k, v};
}

/* Values come from outside and may contain any bytes; OTLP requires UTF-8. */
static void put(struct proc_reader *r, struct str key, struct str value)
{
    value = str_trim(value);
    if (value.n && str_is_utf8(value))
        put_value(r, key, (struct value){.kind = VALUE_STR, .str = value.p, .n = value.n});
}

static void put_c(struct proc_reader *r, const char *key, const char *value)
{
    put(r, str_from(key), str_from(value));
}

static void put_int(struct proc_reader *r, struct str key, int64_t v)
{
    put_value(r, key, (struct value){.kind = VALUE_INT, .integer = v});
}

/* PROC/PID, opened when it is first needed; negative when nothing may be read, or the process is gone. */
static int directory(struct proc_reader *r)
{
    char path[PATH_SIZE];

    if (r->dir == -1 && !r->s->brief) {
        snprintf(path, sizeof path, "%s/%d", r->s->proc, r->s->pid);
        r->dir = MAX(fd_open(AT_FDCWD, path, O_PATH | O_DIRECTORY, 0), -2);
    }
    return r->dir;
}

/* The content of PROC/PID/NAME, or nothing. These files fit into one or two reads: a process may be one of hundreds per
 * second that live for a few milliseconds. */
static struct str proc_file(struct proc_reader *r, const char *name, size_t limit, struct buf *b)
{
    int dir = directory(r);
    _cleanup_(fd_closep) int fd = dir < 0 ? -1 : fd_open(dir, name, O_RDONLY, 0);
    ssize_t n = 1;

    buf_reset(b);
    while (fd >= 0 && n > 0 && b->n <= limit) {
        size_t room = MAX(b->cap - b->n, (size_t) STEP);
        char *p = buf_reserve(b, room);

        n = p ? fd_read(fd, p, room) : -ENOMEM;
        b->n += n > 0 ? (size_t) n : 0;
    }
    return n == 0 && b->n <= limit ? buf_str(b) : (struct str){0};
}

static struct str root_file(struct proc_reader *r, const char *name, struct buf *b)
{
    char path[PATH_SIZE];

    buf_reset(b);
    snprintf(path, sizeof path, "%s/%s", strcmp(r->s->root, "/") ? r->s->root : "", name);
    return fd_read_file(path, FILE_MAX, b, NULL) < 0 ? (struct str){0} : buf_str(b);
}

static void read_context(struct proc_reader *r, struct buf *b)
{
    struct process_context c;
    struct proc_maps maps = {0};
    struct arena a;

    if (!r->s->memory)
        return;
    arena_init(&a, MEMORY_MAX);
    if (proc_maps_parse(proc_file(r, "maps", MAPS_MAX, b), false, &maps) == 0 &&
        process_context_read(&maps, r->s->memory, &a, &c) == 0)
        for (uint32_t i = 0; i < c.resource.n; i++) {
            const struct value *v = &c.resource.v[i].value;

            if (v->kind == VALUE_STR)
                put(r, c.resource.v[i].key, value_str(v));
            else if (v->kind == VALUE_INT || v->kind == VALUE_BOOL || v->kind == VALUE_DOUBLE)
                put_value(r, c.resource.v[i].key, *v);
        }
    proc_maps_done(&maps);
    arena_done(&a);
}

static struct str percent_decode(struct str s, struct arena *a)
{
    char *p = arena_alloc(a, s.n + 1), *q = p;

    if (!p)
        return (struct str){0};
    for (uint32_t i = 0; i < s.n; i++) {
        if (s.p[i] == '%' && i + 2 < s.n && hex_digit(s.p[i + 1]) >= 0 && hex_digit(s.p[i + 2]) >= 0) {
            *q++ = (char) (hex_digit(s.p[i + 1]) << 4 | hex_digit(s.p[i + 2]));
            i += 2;
        } else {
            *q++ = s.p[i];
        }
    }
    return (struct str){p, (uint32_t) (q - p)};
}

int identity_each_pair(struct str text, struct arena *a, int (*f)(void *data, struct str key, struct str value),
                       void *data)
{
    int r = 0;

    while (text.n && r == 0) {
        struct str pair = str_cut(&text, ','), key = str_trim(str_cut(&pair, '='));

        if (key.n && pair.p)
            r = f(data, key, str_trim(percent_decode(pair, a)));
    }
    return r;
}

static int put_pair(void *data, struct str key, struct str value)
{
    put(data, key, value);
    return 0;
}

/* OTEL_SERVICE_NAME takes precedence over OTEL_RESOURCE_ATTRIBUTES. */
static void read_environment(struct proc_reader *r, struct buf *b)
{
    bool seen = r->s->seen && r->s->seen->environment.p;
    struct str text = seen ? r->s->seen->environment : proc_file(r, "environ", ENVIRON_MAX, b), attributes = {0};

    r->a->partial |= !text.n && !r->s->seen && !r->s->brief;
    while (text.n) {
        struct str line = str_cut(&text, 0), name = str_cut(&line, '=');

        if (str_is(name, "OTEL_SERVICE_NAME"))
            put(r, STR(SEMCONV_SERVICE_NAME), line);
        else if (str_is(name, "OTEL_RESOURCE_ATTRIBUTES"))
            attributes = line;
    }
    identity_each_pair(attributes, &r->a->arena, put_pair, r);
}

/* The files of a container are read once a minute, not for each of its processes. */
static void read_container(struct proc_reader *r)
{
    struct identity_cache *c = r->s->cache;
    struct identity_container *to;

    for (uint32_t i = 0; c && i < c->n_containers; i++)
        if (strcmp(c->containers[i].id, r->cgroup.container) == 0) {
            r->container = c->containers[i].names;
            return;
        }
    container_names_read(r->s->root, &r->cgroup, &r->container);
    if (!c)
        return;
    to = &c->containers[c->next_container];
    snprintf(to->id, sizeof to->id, "%s", r->cgroup.container);
    to->names = r->container;
    c->next_container = (c->next_container + 1) % ARRAY_SIZE(c->containers);
    c->n_containers = MIN(c->n_containers + 1, (uint32_t) ARRAY_SIZE(c->containers));
}

/* Control groups are read once a minute, not for each of their processes. */
static void read_cgroup(struct proc_reader *r, struct buf *b)
{
    struct identity_cache *c = r->s->cache;
    uint64_t groups = r->s->groups;
    struct str text;

    if (c && groups && c->groups[groups % ARRAY_SIZE(c->groups)].groups == groups) {
        r->cgroup = c->groups[groups % ARRAY_SIZE(c->groups)].names;
        return;
    }
    text = proc_file(r, "cgroup", FILE_MAX, b);
    cgroup_parse(text, &r->cgroup);
    if (!c || !groups || !text.n)
        return;
    c->groups[groups % ARRAY_SIZE(c->groups)].groups = groups;
    c->groups[groups % ARRAY_SIZE(c->groups)].names = r->cgroup;
}

static void read_groups(struct proc_reader *r, struct buf *b)
{
    read_cgroup(r, b);
    if (r->cgroup.container[0]) {
        read_container(r);
        put_c(r, SEMCONV_CONTAINER_ID, r->cgroup.container);
        put_c(r, "container.runtime", r->cgroup.runtime);
        put_c(r, "container.name", r->container.name);
        put_c(r, "container.image.name", r->container.image);
        put_c(r, "container.image.tags", r->container.tag);
        put_c(r, "k8s.pod.name", r->container.pod);
        put_c(r, "k8s.namespace.name", r->container.namespace);
        put_c(r, "k8s.container.name", r->container.k8s_container);
    }
    put_c(r, "k8s.pod.uid", r->cgroup.pod);
}

/* The text of link PROC/PID/exe, without " (deleted)". */
static struct str executable(struct proc_reader *r, char *ret, size_t size)
{
    struct str s = r->s->exe_link ? str_from(r->s->exe_link) : (struct str){0};
    ssize_t n;

    if (!s.n && !r->s->seen && directory(r) >= 0) {
        n = readlinkat(r->dir, "exe", ret, size);
        s = (struct str){ret, n > 0 && (size_t) n < size ? (uint32_t) n : 0};
    }
    if (!s.n)
        return r->s->exe_path ? str_from(r->s->exe_path) : (struct str){0};
    proc_path_cut_deleted(&s);
    return s;
}

static struct str base_name(struct str path)
{
    for (uint32_t i = path.n; i > 0; i--)
        if (path.p[i - 1] == '/')
            return str_slice(path, i, path.n);
    return path;
}

static void remember_owner(struct identity_cache *c, uint64_t uid, struct str name)
{
    if (!c || c->n_owners == ARRAY_SIZE(c->owners) || name.n >= sizeof c->owners[0].name)
        return;
    c->owners[c->n_owners].uid = uid;
    snprintf(c->owners[c->n_owners++].name, sizeof c->owners[0].name, "%.*s", STR_FMT(name));
}

static void put_owner(struct proc_reader *r, uint64_t uid, struct buf *b)
{
    struct identity_cache *c = r->s->cache;
    struct str text;
    uint64_t v;

    for (uint32_t i = 0; c && i < c->n_owners; i++)
        if (c->owners[i].uid == uid) {
            put_c(r, "process.owner", c->owners[i].name);
            return;
        }
    text = root_file(r, "etc/passwd", b);

    while (text.n) {
        struct str line = str_cut(&text, '\n'), name = str_cut(&line, ':');

        str_cut(&line, ':');
        if (str_to_u64(str_cut(&line, ':'), 10, &v) == 0 && v == uid) {
            put(r, STR("process.owner"), name);
            remember_owner(c, uid, name);
            return;
        }
    }
}

static void read_status(struct proc_reader *r, struct buf *b)
{
    uint64_t v, uid = UINT64_MAX;
    struct str text;

    if (r->s->ppid && r->s->has_uid) {
        put_int(r, STR("process.parent_pid"), r->s->ppid);
        put_owner(r, r->s->uid, b);
        return;
    }
    text = proc_file(r, "status", FILE_MAX, b);
    while (text.n) {
        struct str line = str_cut(&text, '\n'), key = str_cut(&line, ':');

        line = str_trim(line);
        if (str_is(key, "Name") && !has(r, STR(SEMCONV_PROCESS_EXECUTABLE_NAME)))
            put(r, STR(SEMCONV_PROCESS_EXECUTABLE_NAME), line);
        else if (str_is(key, "PPid") && str_to_u64(line, 10, &v) == 0)
            put_int(r, STR("process.parent_pid"), (int64_t) v);
        else if (str_is(key, "Uid") && str_to_u64(str_cut(&line, '\t'), 10, &v) == 0)
            uid = v;
    }
    if (uid != UINT64_MAX)
        put_owner(r, uid, b);
}

/* btime of PROC/stat. */
static uint64_t boot_time(struct proc_reader *r, struct buf *b)
{
    struct identity_cache *c = r->s->cache;
    char path[PATH_SIZE];
    uint64_t boot = 0;
    struct str text;

    if (c && c->boot_s)
        return c->boot_s;
    snprintf(path, sizeof path, "%s/stat", r->s->proc);
    buf_reset(b);
    if (fd_read_file(path, MEMORY_MAX, b, NULL) < 0)
        return 0;
    text = buf_str(b);
    while (text.n) {
        struct str line = str_cut(&text, '\n');

        if (str_starts(line, STR("btime ")) && str_to_u64(str_trim(str_slice(line, 6, line.n)), 10, &boot) == 0)
            break;
    }
    if (c)
        c->boot_s = boot;
    return boot;
}

/* Seconds from the host's start to the process's: field 22 of stat, in ticks. */
static int start_seconds(struct proc_reader *r, struct buf *b, uint64_t *ret)
{
    struct str text;
    uint64_t ticks = 0;
    long hz = sysconf(_SC_CLK_TCK);
    uint32_t at;

    if (r->s->start_ns) {
        *ret = r->s->start_ns / (uint64_t) NS_PER_S;
        return 0;
    }
    text = proc_file(r, "stat", FILE_MAX, b);
    at = text.n;

    while (at && text.p[at - 1] != ')')
        at--;
    text = str_trim(str_slice(text, at, text.n));
    for (int i = 3; i < 22; i++)
        str_cut(&text, ' ');
    if (str_to_u64(str_cut(&text, ' '), 10, &ticks) < 0 || hz <= 0)
        return -EBADMSG;
    *ret = ticks / (uint64_t) hz;
    return 0;
}

static void read_start(struct proc_reader *r, struct buf *b)
{
    _cleanup_(buf_done) struct buf time = BUF_INIT;
    uint64_t start, boot;

    if (start_seconds(r, b, &start) < 0)
        return;
    boot = boot_time(r, b);
    if (!boot || boot > (uint64_t) INT64_MAX / NS_PER_S / 2)
        return;
    clock_format(&time, (int64_t) boot * NS_PER_S + (int64_t) start * NS_PER_S);
    put(r, STR("process.creation.time"), buf_str(&time));
}

static void read_process(struct proc_reader *r, struct buf *b)
{
    char path[PATH_SIZE];
    struct str exe = executable(r, path, sizeof path), command;

    put_int(r, STR(SEMCONV_PROCESS_PID), r->s->pid);
    put(r, STR(SEMCONV_PROCESS_EXECUTABLE_PATH), exe);
    put(r, STR(SEMCONV_PROCESS_EXECUTABLE_NAME), base_name(exe));
    command = r->s->seen ? r->s->seen->command : proc_file(r, "cmdline", FILE_MAX, b);
    r->a->partial |= !command.n && !r->s->brief;
    r->name = arena_str(&r->a->arena, service_name_of(command, base_name(exe)));
    r->is_script = service_script_of(command, base_name(exe), &r->script);
    r->script.path = arena_str(&r->a->arena, r->script.path);
    put(r, STR("process.command"), str_cut(&command, 0)); /* only the program: arguments may contain secrets */
    if (r->s->comm && !exe.n)
        put_c(r, SEMCONV_PROCESS_EXECUTABLE_NAME, r->s->comm);
    read_status(r, b);
    read_start(r, b);
}

static struct str unquote(struct str s)
{
    return s.n >= 2 && (s.p[0] == '"' || s.p[0] == '\'') && s.p[s.n - 1] == s.p[0] ? str_slice(s, 1, s.n - 1) : s;
}

static void read_host_files(struct proc_reader *r, struct buf *b)
{
    char path[PATH_SIZE];
    struct utsname u;
    struct str text;

    snprintf(path, sizeof path, "%s/sys/kernel/hostname", r->s->proc);
    buf_reset(b);
    if (fd_read_file(path, FILE_MAX, b, NULL) >= 0)
        put(r, STR(SEMCONV_HOST_NAME), buf_str(b));
    put(r, STR("host.id"), root_file(r, "etc/machine-id", b));
    if (uname(&u) == 0)
        put_c(r, "host.arch",
              strcmp(u.machine, "x86_64") == 0    ? "amd64"
              : strcmp(u.machine, "aarch64") == 0 ? "arm64"
                                                  : u.machine);
    put(r, STR("os.type"), STR("linux"));
    text = root_file(r, "etc/os-release", b);
    while (text.n) {
        struct str line = str_cut(&text, '\n'), key = str_cut(&line, '=');

        if (str_is(key, "NAME"))
            put(r, STR("os.name"), unquote(line));
        else if (str_is(key, "VERSION_ID"))
            put(r, STR("os.version"), unquote(line));
        else if (str_is(key, "PRETTY_NAME"))
            put(r, STR("os.description"), unquote(line));
    }
}

enum { CACHE_S = 60 };

static void remember_host(struct identity_cache *c, const struct identity_attrs *a)
{
    c->n_host = 0;
    for (uint32_t i = 0; i < a->n && c->n_host < ARRAY_SIZE(c->host); i++) {
        struct kv *to = &c->host[c->n_host];

        *to = a->v[i];
        to->key = arena_str(&c->arena, a->v[i].key);
        if (to->value.kind != VALUE_STR)
            continue;
        to->value.str = arena_str(&c->arena, value_str(&a->v[i].value)).p;
        if (to->key.p && to->value.str)
            c->n_host++;
    }
}

/* Into attributes of its own: a process may name the host itself, in its context or its environment, and the cache is for
 * all processes. */
static void refresh_host(struct proc_reader *r, struct buf *b)
{
    struct identity_cache *c = r->s->cache;
    struct identity_attrs *host = mem_zalloc(sizeof *host);
    struct proc_reader own = {.s = r->s, .a = host, .dir = -1};

    if (!host) {
        r->err = -ENOMEM;
        return;
    }
    arena_init(&host->arena, MEMORY_MAX);
    read_host_files(&own, b);
    arena_done(&c->arena);
    arena_init(&c->arena, MEMORY_MAX);
    *c = (struct identity_cache){.arena = c->arena, .text = c->text, .until_ns = clock_mono() + CACHE_S * NS_PER_S};
    if (own.err < 0)
        c->until_ns = 0;
    remember_host(c, host);
    identity_attrs_done(host);
    mem_free(host);
}

static void read_host(struct proc_reader *r, struct buf *b)
{
    struct identity_cache *c = r->s->cache;

    if (!c) {
        read_host_files(r, b);
        return;
    }
    if (clock_mono() >= c->until_ns)
        refresh_host(r, b);
    for (uint32_t i = 0; i < c->n_host; i++)
        put_value(r, c->host[i].key, c->host[i].value);
}

static void put_go_version(struct proc_reader *r, const struct identity_exe *exe)
{
    char text[128];

    put(r, STR("process.runtime.name"), STR("go"));
    put_c(r, "process.runtime.version", exe->go_version);
    if (!exe->go_revision || !*exe->go_revision)
        return;
    snprintf(text, sizeof text, "%.100s%s", exe->go_revision, exe->go_modified ? "+dirty" : "");
    put_c(r, SEMCONV_SERVICE_VERSION, text);
}

static void put_script_version(struct proc_reader *r)
{
    char dir[PATH_SIZE], version[80];

    if (has(r, STR(SEMCONV_SERVICE_VERSION)) || r->s->brief)
        return;
    snprintf(dir, sizeof dir, "%s/%d", r->s->proc, r->s->pid);
    program_version(dir, &r->script, version, sizeof version);
    put_c(r, SEMCONV_SERVICE_VERSION, version);
}

/* The tag "latest" does not identify a version, and the build of an interpreter is not that of what it runs. */
static void put_versions(struct proc_reader *r)
{
    const struct identity_exe *exe = r->s->exe;

    if (exe && exe->go_version)
        put_go_version(r, exe);
    if (strcmp(r->container.tag, "latest") != 0)
        put_c(r, SEMCONV_SERVICE_VERSION, r->container.tag);
    if (r->is_script)
        put_script_version(r);
    if (exe && exe->gnu_id && *exe->gnu_id) {
        put_c(r, SEMCONV_BUILD_ID_GNU, exe->gnu_id);
        if (!r->is_script)
            put_c(r, SEMCONV_SERVICE_VERSION, exe->gnu_id);
    }
    if (exe && exe->go_id && *exe->go_id)
        put_c(r, SEMCONV_BUILD_ID_GO, exe->go_id);
}

static void put_service(struct proc_reader *r)
{
    _cleanup_(buf_done) struct buf renamed = BUF_INIT;

    put_c(r, SEMCONV_SERVICE_NAME, r->cgroup.unit);
    put_c(r, SEMCONV_SERVICE_NAME, r->container.k8s_container);
    put_c(r, SEMCONV_SERVICE_NAME, r->container.name);
    put(r, STR(SEMCONV_SERVICE_NAME), r->name);
    put(r, STR(SEMCONV_SERVICE_NAME), identity_attrs_get(r->a, STR(SEMCONV_PROCESS_EXECUTABLE_NAME)));
    put(r, STR(SEMCONV_SERVICE_NAME), STR("unknown_service"));
    for (uint32_t i = 0; i < r->a->n; i++) {
        struct kv *kv = &r->a->v[i];

        if (!str_is(kv->key, SEMCONV_SERVICE_NAME) ||
            !identity_rules_apply(r->s->rules, value_str(&kv->value), &renamed) || !renamed.n)
            continue;
        kv->value.str = arena_cstr(&r->a->arena, buf_str(&renamed));
        kv->value.n = (uint32_t) renamed.n;
        if (!kv->value.str)
            r->err = -ENOMEM;
    }
}

static void read_all(struct proc_reader *r, struct buf *b)
{
    read_context(r, b);
    read_environment(r, b);
    read_groups(r, b);
    read_process(r, b);
    read_host(r, b);
    put_service(r);
    put_versions(r);
    fd_close(r->dir);
}

int identity_read(const struct identity_source *s, struct identity_attrs *ret)
{
    _cleanup_(buf_done) struct buf own = BUF_INIT;
    struct proc_reader *r = mem_zalloc(sizeof *r);
    int code;

    ret->n = 0;
    ret->partial = false;
    arena_init(&ret->arena, MEMORY_MAX);
    if (!r)
        return -ENOMEM;
    r->s = s;
    r->a = ret;
    r->dir = -1;
    read_all(r, s->cache ? &s->cache->text : &own);
    code = r->err;
    mem_free(r);
    return code;
}
