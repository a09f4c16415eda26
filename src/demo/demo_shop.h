/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The services of `wick demo`: a gateway calls the checkout, which calls the inventory. They do real work, in functions
 * with descriptive names, with one trace per request: a span in each service. One order in twenty is paid with a gift
 * card and is slower. The gateway leaks, and the inventory has a contended lock. Version 2 of the checkout is the bad deploy.
 */
#ifndef DEMO_DEMO_SHOP_H
#define DEMO_DEMO_SHOP_H

#include <stdbool.h>

struct demo_links {
    int up;   /* requests are received here; -1 in the gateway */
    int down; /* requests are sent here; -1 in the inventory */
};

enum demo_role { DEMO_GATEWAY, DEMO_CHECKOUT, DEMO_INVENTORY };

/* Serves until its peer closes the connection or the process is killed. */
void demo_shop_run(enum demo_role role, const struct demo_links *links, bool bad_deploy);

#endif
