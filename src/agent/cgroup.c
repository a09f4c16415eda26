/* SPDX-License-Identifier: Apache-2.0 */
/* Finds container id, pod uid, runtime and systemd unit in the text of /proc/PID/cgroup. */
#include "agent/cgroup.h"

#include <stdio.h>

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

static bool all_hex(struct str s)
{
    for (uint32_t i = 0; i < s.n; i++)
        if (!is_hex(s.p[i]))
            return false;
    return s.n > 0;
}

static bool is_container(struct str s)
{
    if (s.n == 64)
        return all_hex(s);
    if (s.n != 43 || s.p[32] != '-' || !all_hex(str_slice(s, 0, 32))) /* ECS */
        return false;
    for (uint32_t i = 33; i < s.n; i++)
        if (s.p[i] < '0' || s.p[i] > '9')
            return false;
    return true;
}

static const struct {
    const char *prefix, *runtime;
} prefixes[] = {
    {"docker-", "docker"}, {"cri-containerd-", "containerd"}, {"containerd-", "containerd"}, {"crio-", "cri-o"},
    {"libpod-", "podman"}, {"cri-containerd:", "containerd"},
};

static void set(char *ret, size_t size, struct str s)
{
    snprintf(ret, size, "%.*s", STR_FMT(s));
}

/* One part of the path that may be a container. */
static bool take_container(struct str part, struct cgroup_names *ret)
{
    const char *runtime = "";
    ptrdiff_t colon;

    if (str_ends(part, STR(".scope")))
        part.n -= 6;
    for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++) {
        struct str prefix = str_from(prefixes[i].prefix);

        if (!str_starts(part, prefix))
            continue;
        part = str_slice(part, prefix.n, part.n);
        runtime = prefixes[i].runtime;
        break;
    }
    while ((colon = str_find_char(part, ':')) >= 0) { /* kubepods-…:cri-containerd:ID */
        struct str before = str_cut(&part, ':');

        if (str_is(before, "cri-containerd"))
            runtime = "containerd";
    }
    if (!is_container(part))
        return false;
    set(ret->container, sizeof ret->container, part);
    if (*runtime)
        set(ret->runtime, sizeof ret->runtime, str_from(runtime));
    return true;
}

/* "pod" and 36 characters in 8-4-4-4-12, at any place of the part. */
static bool take_pod(struct str part, struct cgroup_names *ret)
{
    ptrdiff_t at = str_find(part, STR("pod"));

    while (at >= 0 && part.n - (size_t) at >= 39) {
        struct str uid = str_slice(part, (size_t) at + 3, (size_t) at + 39);
        bool good = true;

        for (uint32_t i = 0; i < uid.n; i++)
            good &= i == 8 || i == 13 || i == 18 || i == 23 ? uid.p[i] == '-' || uid.p[i] == '_' : is_hex(uid.p[i]);
        if (good) {
            set(ret->pod, sizeof ret->pod, uid);
            for (char *c = ret->pod; *c; c++)
                *c = *c == '_' ? '-' : *c;
            return true;
        }
        part = str_slice(part, (size_t) at + 3, part.n);
        at = str_find(part, STR("pod"));
    }
    return false;
}

static void take_unit(struct str part, struct cgroup_names *ret)
{
    if (!str_ends(part, STR(".service")) || part.n == 8 || str_starts(part, STR("user@")))
        return;
    part.n -= 8;
    set(ret->unit, sizeof ret->unit, part);
}

void cgroup_parse(struct str text, struct cgroup_names *ret)
{
    *ret = (struct cgroup_names){0};
    while (text.n) {
        struct str line = str_cut(&text, '\n');
        bool systemd;

        str_cut(&line, ':');
        systemd = !str_find_char(line, ':') || str_starts(line, STR("name=systemd:"));
        str_cut(&line, ':');
        while (line.n) {
            struct str part = str_cut(&line, '/');

            if (str_is(part, "docker") || str_is(part, "docker.slice"))
                set(ret->runtime, sizeof ret->runtime, STR("docker"));
            take_pod(part, ret);
            if (!take_container(part, ret) && systemd)
                take_unit(part, ret);
        }
    }
    if (ret->container[0]) /* the runtime's own unit is not the container's */
        ret->unit[0] = 0;
    else
        ret->runtime[0] = 0;
}
