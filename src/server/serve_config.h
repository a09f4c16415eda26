/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wick.yaml: the whole configuration of `wick serve`. The tables in serve_config.c are the only place where options are
 * defined; docs/configuration.md is generated from them (wick serve --print-reference).
 */
#ifndef SERVER_SERVE_CONFIG_H
#define SERVER_SERVE_CONFIG_H

#include <stdbool.h>

#include "alert/alert_config.h"
#include "base/buf.h"
#include "base/err.h"
#include "conf/option.h"
#include "server/people.h"

struct serve_tls {
    bool present;
    const char *cert_file, *key_file, *client_ca_file;
};

struct serve_listen {
    const char *http, *otlp_grpc, *otlp_http; /* addresses; "off" for none */
    struct option_strings hosts;              /* names allowed in Host besides the loopback names */
    struct serve_tls tls;
    bool insecure; /* listen beyond loopback without TLS and tokens */
};

struct serve_retention {
    int64_t keep, detail;          /* ns */
    int64_t size;                  /* bytes */
    struct option_tables services; /* of struct serve_retention_service */
};

struct serve_retention_service {
    const char *service;
    int64_t keep;
};

struct serve_limits {
    int64_t request;      /* bytes per request, decompressed */
    int64_t memory;       /* bytes for the server, 0 = a quarter of the machine's memory */
    int64_t query_time;   /* ns */
    int64_t query_memory; /* bytes per answer */
    int64_t query_workers;
    int64_t samples_per_second;   /* per tenant, 0 = no limit */
    int64_t series;               /* per tenant, 0 = no limit */
    int64_t tenant_queries;       /* per tenant at a time, 0 = no limit */
    int64_t tenant_size;          /* bytes on the disk per tenant, 0 = only retention.size */
    struct option_tables tenants; /* of struct serve_limits_tenant */
};

struct serve_limits_tenant {
    const char *tenant;
    int64_t samples_per_second, series, size;
};
/* Those that apply to a tenant. */
struct serve_limits_tenant serve_limits_of(const struct serve_limits *l, const char *tenant);

struct serve_symbols {
    const char *dir;
    int64_t quota, max_file; /* bytes */
    struct option_strings debuginfod;
    int64_t fetch_timeout, fetch_size, fetches_per_minute;
    int64_t retry; /* ns */
};

struct serve_source {
    const char *prefix, *dir, *link, *repository;
    const char *reached; /* by which path this process opens dir; NULL: dir itself. Links show dir */
};

struct serve_agent {
    bool enabled, both, off_cpu, lines, upload_symbols;
    int64_t rate; /* 0: chosen by the agent */
    double budget;
    int64_t memory, interval;
    const char *export_to, *server, *k8s_api;
    struct option_strings include, exclude, rename;
};

struct serve_traces_config {
    bool enabled;
    int64_t size;     /* bytes of the span index */
    const char *link; /* template of a URL that shows a trace */
};

enum serve_engine { SERVE_ENGINE_SEGMENT, SERVE_ENGINE_MEMORY };
enum serve_ack { SERVE_ACK_QUORUM, SERVE_ACK_SPOOL };
enum serve_role { ROLE_ALL, ROLE_INGEST, ROLE_QUERY };

/* What a peer on another machine may do while there are no tokens; in the order of the words of the option. */
enum serve_anonymous { ANONYMOUS_NONE, ANONYMOUS_SEND, ANONYMOUS_USE };

struct serve_config {
    const char *user; /* NULL: wick, if that user exists */
    int role;         /* enum serve_role */
    struct serve_listen listen;
    struct {
        const char *tokens; /* file */
        int anonymous;      /* enum serve_anonymous */
        const char *audit;  /* file, or "off" */
        struct people_config people;
    } auth;
    struct {
        const char *dir;
        int engine; /* enum serve_engine */
        /* not options: the location, with an engine that is not in a directory, and that engine */
        const char *place, *engine_of_place;
        int ack; /* enum serve_ack */
        const char *spool;
        int64_t spool_size;
        const char *cold; /* location of an object store, or NULL */
        bool async;
        int timestamps; /* enum store_timestamps */
        int64_t memory, cache;
        struct option_strings
            labels; /* resource attributes, in addition to labels_default_allow; none or "auto": chosen */
        int64_t label_values;
    } store;
    struct serve_retention retention;
    struct serve_traces_config traces;
    struct serve_limits limits;
    struct serve_symbols symbols;
    struct option_tables source; /* of struct serve_source */
    struct serve_agent agent;
    struct {
        const char *own_code, *currency, *url;
        double price;
    } ui;
    struct alert_config alerts;
    struct option_tables recording; /* of struct alert_recording_config */
    struct {
        int level, format; /* enum log_level, enum log_format */
    } log;
};

extern const struct option serve_options[];

/* Reads c->root, expanded. The Collector's sections (receivers, processors, exporters, extensions, service) are left to
 * the pipeline. */
int serve_config_read(struct conf *c, struct serve_config *ret, struct err *e);
/* The reference page, in Markdown. */
void serve_config_reference(struct buf *out);

#endif
