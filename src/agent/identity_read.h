/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the identity of a process. Name and version come from the first of these sources that has one:
 *
 *   service.name      OTEL_CTX; OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES of its environment; systemd unit; container's
 *                     name; what an interpreter runs (module, script, jar, main class); argv[0]; executable
 *   service.version   OTEL_CTX; OTEL_RESOURCE_ATTRIBUTES; VCS revision of a Go build; image tag; GNU build id
 *
 * Names of containers and images come from the files that the runtimes keep on this host, if they are readable:
 * Docker's config.v2.json, containerd's, podman's and CRI-O's config.json.
 *
 * All paths are under `proc` and `root`, so that a test can use a tree of its own. Everything read has a limit; what
 * cannot be read, or is malformed, is left out.
 */
#ifndef AGENT_IDENTITY_READ_H
#define AGENT_IDENTITY_READ_H

#include "agent/cgroup.h"
#include "agent/container_files.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "model/batch.h"
#include "proc/proc_memory.h"

/* Facts that are the same for all processes of a host, user names and control groups: cached, and read again after a
 * while. */
struct identity_cache {
    struct kv host[8];
    uint32_t n_host;
    struct {
        uint64_t uid;
        char name[40];
    } owners[32];
    uint32_t n_owners;
    struct identity_container {
        char id[80];
        struct container_names names;
    } containers[16];
    uint32_t n_containers, next_container; /* the oldest entry is replaced */
    struct {
        uint64_t groups; /* identity_source.groups; 0: empty */
        struct cgroup_names names;
    } groups[64];    /* by groups % 64 */
    uint64_t boot_s; /* when the host started, since 1970; 0: not read */
    int64_t until_ns;
    struct arena arena;
    struct buf text; /* of the file that is being read; not freed */
};

/* What the executable says about its build; NULL or "" where it says nothing. */
struct identity_exe {
    const char *gnu_id, *go_id;
    const char *go_version, *go_revision;
    bool go_modified;
};

struct identity_source {
    const char *proc;                 /* "/proc" */
    const char *root;                 /* "/" of this host: /etc, /var/lib/docker, /run */
    int pid;                          /* its name under proc */
    const struct proc_memory *memory; /* for OTEL_CTX; NULL: not read */
    const struct identity_exe *exe;   /* NULL: no version from it */
    const char *exe_path, *comm;      /* what is known of a process that is gone; NULL: nothing */
    const char *exe_link;             /* the text of PROC/PID/exe, if it was read already; NULL: not read */
    uint64_t start_ns;                /* CLOCK_BOOTTIME when the process was forked; 0: read from PROC/PID/stat */
    const struct identity_rules *rules;
    struct identity_cache *cache;    /* NULL: everything is read */
    const struct process_seen *seen; /* its command line and environment; NULL: they are read */
    uint64_t groups;                 /* equal for processes in the same control groups; 0: not known */
    uint32_t ppid;                   /* 0: read, together with the user */
    uint32_t uid;
    bool has_uid; /* uid is known */
    bool brief;   /* nothing is read from the process: only the fields of this struct are used */
};

enum { IDENTITY_ATTRS = 64 };

struct identity_attrs {
    struct kv v[IDENTITY_ATTRS]; /* resource attributes, each key once */
    uint32_t n;
    bool partial; /* its command line or its environment was empty: the process is in the middle of exec, or gone */
    struct arena arena;
};

/* ret is to be freed with identity_attrs_done(), also on failure. 0 or -ENOMEM. */
int identity_read(const struct identity_source *s, struct identity_attrs *ret);
void identity_attrs_done(struct identity_attrs *a);
struct str identity_attrs_get(const struct identity_attrs *a, struct str key); /* {NULL} when absent or not a string */

/* --- renaming: REGEXP=NAME, where NAME may have \1 to \9; the first rule that matches the whole name is used --- */
struct identity_rules;
int identity_rules_new(struct identity_rules **ret);
int identity_rules_add(struct identity_rules *r, struct str rule, struct err *e);
void identity_rules_free(struct identity_rules *r);
DEFINE_CLEANUP(struct identity_rules *, identity_rules_free)
/* Appends the new name; false when no rule matches. */
bool identity_rules_apply(const struct identity_rules *r, struct str name, struct buf *out);

/* OTEL_RESOURCE_ATTRIBUTES: "key1=value1,key2=value2", values percent-encoded. Calls f for each pair, decoded, until it
 * returns a value other than 0. */
int identity_each_pair(struct str text, struct arena *a, int (*f)(void *data, struct str key, struct str value),
                       void *data);

#endif
