/* SPDX-License-Identifier: Apache-2.0 */
/* Target lists and Kubernetes' answers for the pprof receiver, and requests of other signals. */
#include "pipeline/blob.h"
#include "pipeline/receivers/scrape_discovery.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *) data, (uint32_t) size};
    struct scrape_list *l = scrape_list_new();
    struct err e;
    uint32_t n;

    if (l && size < 1 << 20) {
        scrape_parse_file(l, text, "fuzz", &e);
        scrape_parse_pods(l, text, "p", &e);
    }
    scrape_list_free(l);
    for (int i = SIGNAL_TRACES; i < SIGNALS; i++)
        blob_count((enum signal) i, data, size, &n);
    return 0;
}
