/* SPDX-License-Identifier: Apache-2.0 */
/* `file_storage`: a directory in which persistent sending queues keep their logs (qlog.h), one subdirectory each. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/mem.h"
#include "pipeline/graph/storage.h"

struct file_storage_config {
    const char *directory;
    bool create_directory, fsync;
    int64_t max_size;
};

extern const struct component component_file_storage_extension;

static const struct option options[] = {
    {"directory", OPT_STRING, offsetof(struct file_storage_config, directory), "/var/lib/otelcol/file_storage",
     "directory for the queues"},
    {"create_directory", OPT_BOOL, offsetof(struct file_storage_config, create_directory), "true",
     "create the directory if it does not exist"},
    {"fsync", OPT_BOOL, offsetof(struct file_storage_config, fsync), "false",
     "sync to disk, so that acknowledged data also survives a crash of the machine"},
    {"max_size", OPT_SIZE, offsetof(struct file_storage_config, max_size), "0",
     "maximum size of one queue in bytes; 0: no limit"},
    {"directory_permissions", OPT_IGNORED, 0, NULL, "directories are always created with mode 0700"},
    {"timeout", OPT_IGNORED, 0, NULL, "a directory in use by another process is an error"},
    {"compaction", OPT_IGNORED, 0, NULL, "segments are removed once their data has been sent"},
    {"recreate", OPT_IGNORED, 0, NULL, "damaged records are skipped; their files are kept in lost/"},
    {0},
};

int storage_open_log(struct instance *x, const char *exporter, enum signal signal, const struct storage_watch *w,
                     struct qlog **ret, struct err *e)
{
    const struct file_storage_config *c = x->api;
    struct qlog_options o;
    char name[128], path[4096];
    struct stat st;

    if (x->type != &component_file_storage_extension)
        return err_set(e, -EINVAL, "extension '%s' is not a storage extension", x->id);
    o = (struct qlog_options){
        .fsync = c->fsync, .max_bytes = (uint64_t) c->max_size, .on_damage = w->on_damage, .arg = w->arg};
    if (!c->create_directory && stat(c->directory, &st) < 0)
        return err_set(e, -errno, "file_storage directory '%s': %m", c->directory);
    snprintf(name, sizeof name, "exporter_%s_%s", exporter, signal_names[signal]);
    for (char *p = name; *p; p++)
        if (!isalnum((unsigned char) *p) && *p != '_' && *p != '-')
            *p = '_';
    snprintf(path, sizeof path, "%s/%s", c->directory, name);
    return qlog_open(path, &o, ret, e);
}

static void free_instance(struct instance *i)
{
    mem_free(i);
}

static int create(const struct component_args *args, struct instance **ret, struct err *e)
{
    struct instance *i = mem_zalloc(sizeof *i);

    (void) e;
    if (!i)
        return -ENOMEM;
    i->api = args->config;
    i->free = free_instance;
    *ret = i;
    return 0;
}

const struct component component_file_storage_extension = {
    .kind = COMPONENT_EXTENSION,
    .name = "file_storage",
    .help = "stores persistent sending queues in a directory",
    .options = options,
    .config_size = sizeof(struct file_storage_config),
    .create = create,
};
