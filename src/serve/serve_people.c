/* SPDX-License-Identifier: Apache-2.0 */
/* Starts the audit log and logins with an OpenID provider (serve_people.h). */
#include "serve/serve_people.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "serve/serve_state.h"
#include "server/audit.h"
#include "server/oidc.h"

static int start_audit(struct serve *s, struct err *e)
{
    const char *given = s->config.auth.audit;
    char path[SERVE_PATH_SIZE + 16];
    int r;

    if ((given && strcmp(given, "off") == 0) || (!given && !serve_store_in_dir(&s->config)))
        return 0;
    snprintf(path, sizeof path, "%s/audit.jsonl", s->reached_store);
    r = audit_open(given ? given : path, &s->audit, e);
    if (r < 0 && !given) {
        log_warn("%s: who changes what is not noted", err_message(e, r));
        return 0;
    }
    return r;
}

int serve_people_know(struct serve *s, struct err *e)
{
    const struct people_config *c = &s->config.auth.people;

    (void) e;
    if (c->proxy.present || c->oidc.present)
        auth_set_people(s->auth, c);
    return 0;
}

int serve_people_start(struct serve *s, struct err *e)
{
    const struct people_config *c = &s->config.auth.people;
    int r = start_audit(s, e);

    return r == 0 && c->oidc.present ? oidc_new(c, &s->oidc) : r;
}

void serve_people_stop(struct serve *s)
{
    oidc_free(s->oidc);
    audit_free(s->audit);
}
