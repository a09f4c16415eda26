/* SPDX-License-Identifier: Apache-2.0 */
/* The screen of `wick top`: draws rows to fit the terminal and turns keys into changes of the view. */
#ifndef RECORD_TOP_SCREEN_H
#define RECORD_TOP_SCREEN_H

#include "base/err.h"
#include "record/top_rows.h"

enum { TOP_FILTER_MAX = 200 };

struct top_screen {
    struct top_view view;
    bool paused, help, quit;
    bool typing; /* a filter is being typed */
    char filter[TOP_FILTER_MAX], typed[TOP_FILTER_MAX];
    struct regex *regex; /* of filter; view.filter points to it */
    char message[256];   /* shown until the next key */
};

/* What stands above the rows. */
struct top_status {
    const char *line;
    int64_t interval_ns;
};

/* True if both standard input and output are a terminal, which then shows its second screen and passes on keys one by
 * one until top_screen_end(). */
bool top_screen_begin(void);
void top_screen_end(void);
void top_screen_done(struct top_screen *s);

/* Sets the filter; an empty text removes it. */
int top_screen_filter(struct top_screen *s, const char *text, struct err *e);
/* Takes what was typed: n bytes of text. Returns true if the screen has to be drawn again. */
bool top_screen_keys(struct top_screen *s, const char *text, size_t n);

/* Appends the text of a screen of this size, without anything that only a terminal understands. */
void top_screen_text(const struct top_screen *s, const struct top_rows *t, const struct top_status *status, int rows,
                     int columns, struct buf *out);
/* Draws it on the terminal, with as many rows of functions as fit. */
int top_screen_draw(const struct top_screen *s, const struct top_rows *t, const struct top_status *status);

#endif
