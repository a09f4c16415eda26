/* SPDX-License-Identifier: Apache-2.0 */
/* What the web UI needs to know besides data: where senders send to, where source code is, how costs are calculated.
 * Filled in before the first request and changed afterwards only by ui_info_change(). The creator owns the strings. */
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

/* The function whose instructions are asked for. */
struct ui_code {
    const char *tenant;
    struct str build_id, file; /* file: the binary's path on the profiled machine */
    uint64_t address, end;     /* ELF addresses that were sampled: the first, and after the last */
};

struct ui_info {
    const char *mode;        /* "server", or "files" for wick pprof -http */
    struct ui_file files[2]; /* files: the profile, and what it is compared with */
    uint32_t n_files;
    const char *default_query, *base_query;             /* files: what to show first, and what to compare it with */
    int64_t from, to;                                   /* files: a range that covers everything; 0 = none */
    const char *otlp_grpc, *otlp_http, *otlp_note;      /* addresses, NULL = off; the note says why */
    const char *agent_state, *agent_reason, *agent_fix; /* state NULL: no agent is known */
    /* Of an agent that was started, its state now: as members of a JSON object, and as lines that say only what is not as
     * it should be. NULL: there is none. */
    void (*agent_json)(void *agent, struct buf *out);
    void (*agent_lines)(void *agent, struct buf *out);
    int64_t demo_deploy, demo_end; /* of wick demo; 0 = this is not its server */
    void *agent;
    struct ui_settings {
        const struct serve_source *sources; /* serve_config.h */
        uint32_t n_sources;
        double price_per_core_hour; /* 0 = not set */
        const char *currency, *own_code, *trace_link;
    } settings;
    struct senders *senders; /* serve/senders.h; NULL: no profiles are received here */
    int (*senders_json)(struct senders *s, const char *tenant, int64_t now, struct buf *out);
    /* Appends the text of a source file that no configured folder has (files: found by pprof's rules); -ENOENT with an error
     * message. May be NULL. */
    int (*read_source)(void *ctx, struct str file, struct buf *out, struct err *e);
    void *ctx;
    /* Appends the instructions of a function as JSON; -ENOENT with an error message. May be NULL. */
    int (*code)(void *ctx, const struct ui_code *q, struct buf *out, struct err *e);
    void *code_ctx;
};

/* Replaces the settings. After it returns, the old ones are no longer in use. */
void ui_info_change(struct ui_info *i, const struct ui_settings *s);
/* ,"mode":…,"otlp":… for /api/v1/status */
void ui_info_json(const struct ui_info *i, struct buf *out);
/* Appends the text of a source file that a profile names, from the configured folders. *ret_modified: when the file was
 * changed (ns since 1970), 0 if that is not known. -ENOENT with an error message that says what to set. */
int ui_info_source(const struct ui_info *i, struct str file, struct buf *out, int64_t *ret_modified, struct err *e);
/* {"links":[{"name":…,"url":…}]}: links to a line of a file, by the configured templates. */
void ui_info_links(const struct ui_info *i, struct str file, uint64_t line, struct str revision, struct buf *out);

#endif
