/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the path of a control group says about a process: /proc/PID/cgroup, one line "N:controllers:/path" per
 * hierarchy (v1), or "0::/path" alone (v2). The names are those that container runtimes and systemd use:
 *
 *   container   64 hexadecimal digits, alone or as docker-ID.scope, cri-containerd-ID.scope, crio-ID.scope,
 *               libpod-ID.scope, cri-containerd:ID (nested); ECS: 32 digits, '-', 10 digits
 *   pod         podUID, with '-' or '_' between its parts, alone or inside kubepods-burstable-podUID.slice
 *   unit        the last NAME.service that is not a user's manager
 */
#ifndef AGENT_CGROUP_H
#define AGENT_CGROUP_H

#include "base/str.h"

enum { CGROUP_NAME_MAX = 256 };

struct cgroup_names {
    char container[80]; /* each is empty when there is none */
    char pod[40];
    char unit[CGROUP_NAME_MAX]; /* without ".service" */
    char runtime[16];           /* "docker", "containerd", "cri-o", "podman"; empty when the name does not say */
};

void cgroup_parse(struct str text, struct cgroup_names *ret);

#endif
