/* SPDX-License-Identifier: Apache-2.0 */
/* What the web UI is told beyond data: where senders send, where source code is, how money is counted. Filled before the
 * first request and changed afterwards by ui_info_change() alone; strings are the maker's. */
#ifndef SERVER_UI_INFO_H
#define SERVER_UI_INFO_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/str.h"

struct err;
struct senders;
struct serve_source;

struct ui_file {
    const char *name, *type;
};

struct ui_info {
    const char *mode;        /* "server", or "files" for wick pprof -http */
    struct ui_file files[2]; /* files: the profile, and what it is compared with */
    uint32_t n_files;
    const char *default_query, *base_query;             /* files: what to show first, and what to compare it with */
    int64_t from, to;                                   /* files: a range that holds everything; 0 = none */
    const char *otlp_grpc, *otlp_http, *otlp_note;      /* addresses, NULL = off; the note says why */
    const char *agent_state, *agent_reason, *agent_fix; /* state NULL: nothing is known of an agent */
    /* Whether it ended, which makes its state "failed", and what it said of that (NULL: nothing). May be NULL. */
    bool (*agent_ended)(void *agent, const char **ret_reason, const char **ret_fix);
    uint64_t (*agent_lost)(void *agent); /* samples that the store refused; may be NULL */
    void *agent;
    struct ui_settings {
        const struct serve_source *sources; /* serve_config.h */
        uint32_t n_sources;
        double price_per_core_hour; /* 0 = not set */
        const char *currency, *own_code;
    } settings;
    struct senders *senders; /* NULL: nobody sends here */
    /* files: the text of a source file by pprof's rules, appended; -ENOENT with words. May be NULL. */
    int (*read_source)(void *ctx, struct str file, struct buf *out, struct err *e);
    void *ctx;
};

/* Other settings from now on. When it returns nobody uses the old ones any more. */
void ui_info_change(struct ui_info *i, const struct ui_settings *s);
/* ,"mode":…,"otlp":… for /api/v1/status */
void ui_info_json(const struct ui_info *i, struct buf *out);
/* The text of a source file that a profile names, from the configured folders. -ENOENT with words on what to set. */
int ui_info_source(const struct ui_info *i, struct str file, struct buf *out, struct err *e);
/* {"links":[{"name":…,"url":…}]}: where a line of a file is, by the configured templates. */
void ui_info_links(const struct ui_info *i, struct str file, uint64_t line, struct str revision, struct buf *out);

#endif
