/* SPDX-License-Identifier: Apache-2.0 */
/* Scraping that is begun while the server runs: server/scraping.h for the Start page. */
#ifndef SERVE_SERVE_SCRAPE_H
#define SERVE_SERVE_SCRAPE_H

#include "base/err.h"
#include "server/scraping.h"

struct arg_list;
struct serve_scrape;
struct sink;

/* Profiles go to sink. given: the URLs of --scrape, which are scraped already. Both must live longer. */
int serve_scrape_new(struct sink *sink, const struct arg_list *given, struct serve_scrape **ret);
/* For front_options. */
const struct scraping *serve_scrape_calls(const struct serve_scrape *s);
/* Stops scraping. No call may be in progress. */
void serve_scrape_free(struct serve_scrape *s);

#endif
