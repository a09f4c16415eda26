/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pprof's filters over one profile, in place. Names are matched per location: function name, file name or mapping file.
 * Each reports what matched, for the warning that an expression matched nothing. All return 0 or a negative errno.
 */
#ifndef REPORT_PROF_FILTER_H
#define REPORT_PROF_FILTER_H

#include "base/regex.h"
#include "report/prof.h"

struct name_match {
    bool focus, ignore, hide, show;
};

/* Keeps samples with a frame that matches focus and none that matches ignore; removes lines that match hide or do not
 * match show. Any expression may be NULL. */
int filter_by_name(struct prof *p, const struct regex *focus, const struct regex *ignore, const struct regex *hide,
                   const struct regex *show, struct name_match *ret);
/* Drops frames above the highest one that matches; samples without a match are dropped. */
int filter_show_from(struct prof *p, const struct regex *from, bool *ret_matched);
/* Drops frames below the lowest one that matches. */
int filter_prune_from(struct prof *p, const struct regex *from);
/* drop_frames and keep_frames of the profile. Broken expressions in a profile are ignored, as pprof does. */
int filter_uninteresting(struct prof *p);

/* --- labels (prof_tags.c) --- */
/* Unit of each numeric label key: the first one met, else guessed from the key. */
struct label_units {
    struct label_unit {
        uint32_t key, unit;
    } * v;
    size_t n, cap;
};
typedef void filter_message(void *arg, const char *text);
int label_units_find(struct prof *p, struct label_units *ret, filter_message *say, void *arg);
void label_units_done(struct label_units *u);
struct str label_unit(const struct prof *p, const struct label_units *u, uint32_t key);

/* A -tagfocus or -tagignore expression. */
struct tag_filter;
int tag_filter_new(const char *name, struct str text, struct tag_filter **ret, bool *ret_range, struct err *e);
/* The part of the expression after "key=". */
struct str tag_filter_value(struct str text);
void tag_filter_free(struct tag_filter *f);
DEFINE_CLEANUP(struct tag_filter *, tag_filter_free)
int filter_by_tag(struct prof *p, const struct label_units *units, const struct tag_filter *focus,
                  const struct tag_filter *ignore, bool *ret_focused, bool *ret_ignored);
/* Removes labels by key. */
int filter_tags_by_name(struct prof *p, const struct regex *show, const struct regex *hide, bool *ret_shown,
                        bool *ret_hidden);
/* Frames made of label values at the root and the leaf of each sample; keys are comma-separated. */
int filter_add_label_frames(struct prof *p, struct str root_keys, struct str leaf_keys, struct str unit, bool *ret_root,
                            bool *ret_leaf);

/* A function name without its parameters, as drop_frames requires. */
struct str filter_simple_name(struct str name);

#endif
