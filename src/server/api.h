/* SPDX-License-Identifier: Apache-2.0 */
/* The server's own lists of routes. Each function mounts the routes of one file. */
#ifndef SERVER_API_H
#define SERVER_API_H

struct call;
struct err;
struct front;

/* Answers pprof, which asks for the names of a profile's addresses that have none, that there are none to add: profiles are
 * given out with every name that is known here, and an address alone does not say of which file it is. */
int api_no_symbols(struct call *c, struct err *e);

int api_mount_query(struct front *s);      /* /api/v1: every question of query.h */
int api_mount_profile(struct front *f);    /* /api/v1/profile: profiles as files */
int api_mount_mcp(struct front *f);        /* /mcp */
int api_mount_pid(struct front *f);        /* /pid/N/debug/pprof/profile */
int api_mount_openapi(struct front *f);    /* /api/v1/openapi.json */
int api_mount_pyroscope(struct front *f);  /* querier.v1.QuerierService, for Grafana */
int api_mount_render(struct front *f);     /* /pyroscope/render and related paths */
int api_mount_debuginfod(struct front *f); /* /buildid/: files for debuggers, as debuginfod serves them */
int api_mount_scrape(struct front *f);     /* /api/v1/scrape: local programs with /debug/pprof/ */
int api_mount_alerts(struct front *f);     /* /api/v1/alerts: rules and alerts */
int api_mount_marks(struct front *f);      /* /api/v1/notes, /api/v1/views: notes on charts and saved views */
int api_mount_symbols(struct front *f);    /* /api/v1/symbols: uploads, and the status of symbolization */
int api_mount_status(struct front *s);     /* /healthz, /readyz, /metrics, /api/v1/status, login */
int api_mount_views(struct front *f);      /* /api/v1/senders, /api/v1/source: what else the web UI needs */
int api_mount_oidc(struct front *f);       /* logins with an OpenID provider */
int api_mount_docs(struct front *f);       /* the documents, under /docs */
int api_mount_ui(struct front *f);         /* everything else: the web UI's files; mount it last */

#endif
