/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the JSON files that container runtimes keep about a container, and takes its name, image and pod from them. */
#include "agent/container_files.h"

#include <stdio.h>

#include "agent/cgroup.h"
#include "base/fd.h"
#include "base/json.h"

enum { FILE_MAX = 4 << 20, ARENA_MAX = 8 << 20, PATH_SIZE = 4096 };

static const char *const places[] = {
    "var/lib/docker/containers/%s/config.v2.json",
    "run/containerd/io.containerd.runtime.v2.task/k8s.io/%s/config.json",
    "run/containerd/io.containerd.runtime.v2.task/default/%s/config.json",
    "run/containers/storage/overlay-containers/%s/userdata/config.json",
    "var/lib/containers/storage/overlay-containers/%s/userdata/config.json",
};

static void set(char *ret, struct str s)
{
    if (!ret[0] && s.n && s.n < CONTAINER_NAME_MAX && str_is_utf8(s))
        snprintf(ret, CONTAINER_NAME_MAX, "%.*s", STR_FMT(s));
}

/* "registry:5000/team/app:1.4@sha256:…" -> image and tag; a digest alone is not a tag. */
static void set_image(struct container_names *ret, struct str s)
{
    struct str name = str_cut(&s, '@');
    uint32_t at = name.n;

    while (at && name.p[at - 1] != ':' && name.p[at - 1] != '/')
        at--;
    if (at && name.p[at - 1] == ':') {
        set(ret->tag, str_slice(name, at, name.n));
        name.n = at - 1;
    }
    if (!str_is(name, "sha256"))
        set(ret->image, name);
}

static void set_annotation(struct container_names *ret, struct str key, struct str v)
{
    if (str_is(key, "io.kubernetes.cri.container-name") || str_is(key, "io.kubernetes.container.name"))
        set(ret->k8s_container, v);
    else if (str_is(key, "io.kubernetes.cri.image-name") || str_is(key, "io.kubernetes.cri-o.ImageName") ||
             str_is(key, "io.container.manager.image") || str_is(key, "org.opencontainers.image.ref.name"))
        set_image(ret, v);
    else if (str_is(key, "io.kubernetes.cri.sandbox-name") || str_is(key, "io.kubernetes.pod.name"))
        set(ret->pod, v);
    else if (str_is(key, "io.kubernetes.cri.sandbox-namespace") || str_is(key, "io.kubernetes.pod.namespace"))
        set(ret->namespace, v);
    else if (str_is(key, "io.podman.annotations.container-name") || str_is(key, "nerdctl/name"))
        set(ret->name, v);
}

/* Labels of Docker, annotations of the others. */
static void read_pairs(struct json *j, struct container_names *ret)
{
    struct str key;

    if (json_peek(j) != JSON_OBJECT) {
        json_skip(j);
        return;
    }
    json_begin_object(j);
    while (json_next_key(j, &key)) {
        if (json_peek(j) == JSON_STRING)
            set_annotation(ret, key, json_str(j));
        else
            json_skip(j);
    }
}

static void read_docker_config(struct json *j, struct container_names *ret)
{
    struct str key;

    if (json_peek(j) != JSON_OBJECT) {
        json_skip(j);
        return;
    }
    json_begin_object(j);
    while (json_next_key(j, &key)) {
        if (str_is(key, "Image") && json_peek(j) == JSON_STRING)
            set_image(ret, json_str(j));
        else if (str_is(key, "Labels"))
            read_pairs(j, ret);
        else
            json_skip(j);
    }
}

void container_names_parse(struct str text, struct container_names *ret)
{
    struct arena a;
    struct json j;
    struct str key;

    arena_init(&a, ARENA_MAX);
    json_init(&j, text, &a);
    json_begin_object(&j);
    while (json_next_key(&j, &key)) {
        if (str_is(key, "Name") && json_peek(&j) == JSON_STRING) {
            struct str name = json_str(&j);

            set(ret->name, str_starts(name, STR("/")) ? str_slice(name, 1, name.n) : name);
        } else if (str_is(key, "Config")) {
            read_docker_config(&j, ret);
        } else if (str_is(key, "annotations")) {
            read_pairs(&j, ret);
        } else {
            json_skip(&j);
        }
    }
    arena_done(&a);
}

void container_names_read(const char *root, const struct cgroup_names *c, struct container_names *ret)
{
    *ret = (struct container_names){0};
    for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
        _cleanup_(buf_done) struct buf b = BUF_INIT;
        _cleanup_(fd_closep) int fd = -1;
        char path[PATH_SIZE];

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(path, sizeof path, places[i], c->container); /* only digits and '-': checked by cgroup.c */
#pragma GCC diagnostic pop
        fd = fd_open_in_root(root, path);
        if (fd >= 0 && fd_read_all(fd, FILE_MAX, &b) >= 0) {
            container_names_parse(buf_str(&b), ret);
            return;
        }
    }
}
