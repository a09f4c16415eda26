/* SPDX-License-Identifier: Apache-2.0 */
/* Target lists, Kubernetes' answers for the pprof receiver and for k8s_attributes, and requests of other signals. */
#include "pipeline/delivery/blob.h"
#include "pipeline/k8s/k8s_table.h"
#include "pipeline/receivers/scrape_discovery.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int on_pod(void *arg, const struct k8s_pod *p)
{
    struct kvs attrs = {0};
    struct kvs_edit x;
    struct arena a;

    arena_init(&a, 1 << 20);
    kvs_edit_init(&x, &attrs, &a);
    k8s_table_add(arg, p);
    k8s_table_apply(arg, p->uid, p->n_containers ? p->containers[0].id : (struct str){0}, &x);
    arena_done(&a);
    return 0;
}

static void read_pods(struct str text)
{
    static struct k8s_rule rule = {"app", "app", false};
    static const struct k8s_extract all = {.fields = (1u << K8S_FIELDS) - 1,
                                           .rules = &rule,
                                           .n_rules = 1,
                                           .service_annotation = "example.com/service",
                                           .otel_annotations = true};
    _cleanup_(k8s_table_freep) struct k8s_table *t = k8s_table_new(&all);
    struct err e;

    if (t)
        k8s_pods_parse(text, on_pod, t, &e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *) data, (uint32_t) size};
    struct scrape_list *l = scrape_list_new();
    struct err e;
    uint32_t n;

    if (l && size < 1 << 20) {
        scrape_parse_file(l, text, "fuzz", &e);
        scrape_parse_pods(l, text, "p", &e);
        read_pods(text);
    }
    scrape_list_free(l);
    for (int i = SIGNAL_TRACES; i < SIGNALS; i++)
        blob_count((enum signal) i, data, size, &n);
    return 0;
}
