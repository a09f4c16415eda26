/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the container runtimes keep on this host about a container, by its id: its name, its image, its pod.
 *
 *   Docker       var/lib/docker/containers/ID/config.v2.json            {"Name": "/web", "Config": {"Image": "nginx:1.25"}}
 *   containerd   run/containerd/io.containerd.runtime.v2.task/{k8s.io,default,moby}/ID/config.json
 *   podman       var/lib/containers/storage/overlay-containers/ID/userdata/config.json
 *   CRI-O        run/containers/storage/overlay-containers/ID/userdata/config.json
 *                                                                       {"annotations": {"io.kubernetes.cri.…": "…"}}
 */
#ifndef AGENT_CONTAINER_FILES_H
#define AGENT_CONTAINER_FILES_H

#include "base/str.h"

struct cgroup_names;

enum { CONTAINER_NAME_MAX = 256 };

struct container_names { /* each empty when it is not known */
    char name[CONTAINER_NAME_MAX];
    char image[CONTAINER_NAME_MAX]; /* without its tag */
    char tag[CONTAINER_NAME_MAX];
    char pod[CONTAINER_NAME_MAX], namespace[CONTAINER_NAME_MAX], k8s_container[CONTAINER_NAME_MAX];
};

void container_names_read(const char *root, const struct cgroup_names *c, struct container_names *ret);
/* Docker's file, or a config.json of the others. */
void container_names_parse(struct str text, struct container_names *ret);

#endif
