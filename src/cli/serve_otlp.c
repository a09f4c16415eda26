/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See serve_otlp.h. A token is tied to a tenant, and the pipeline's service to one too: there is a service per tenant
 * that has sent something, found under a lock that is held for a look-up. Without tokens, loopback peers send to the
 * default tenant.
 */
#include "cli/serve_otlp.h"

#include <errno.h>
#include <pthread.h>

#include "base/mem.h"
#include "net/grpc.h"
#include "net/server.h"
#include "pipeline/receivers/otlp_service.h"
#include "server/auth.h"
#include "server/door.h"

enum { TENANTS_MAX = 10000 };

struct tenant_service {
    struct otlp_service service;
    char tenant[AUTH_TENANT_SIZE];
    struct tenant_service *next;
};

struct serve_otlp {
    struct sink *sink;
    struct auth *auth;
    const char *const *hosts;
    size_t max_message;
    pthread_mutex_t lock; /* the list; services themselves never change */
    struct tenant_service *services;
    size_t n;
};

int serve_otlp_new(struct sink *sink, struct auth *auth, const char *const *hosts, size_t max_message,
                   struct serve_otlp **ret, struct err *e)
{
    struct serve_otlp *o = mem_zalloc(sizeof *o);

    (void) e;
    if (!o)
        return -ENOMEM;
    *o = (struct serve_otlp){.sink = sink, .auth = auth, .hosts = hosts, .max_message = max_message};
    pthread_mutex_init(&o->lock, NULL);
    *ret = o;
    return 0;
}

void serve_otlp_free(struct serve_otlp *o)
{
    if (!o)
        return;
    for (struct tenant_service *t = o->services, *next; t; t = next) {
        next = t->next;
        mem_free(t);
    }
    pthread_mutex_destroy(&o->lock);
    mem_free(o);
}

static struct tenant_service *add_service(struct serve_otlp *o, const char *tenant)
{
    struct tenant_service *t = o->n < TENANTS_MAX ? mem_zalloc(sizeof *t) : NULL;

    if (!t)
        return NULL;
    memcpy(t->tenant, tenant, sizeof t->tenant);
    t->service = (struct otlp_service){.profiles = o->sink, .max_message = o->max_message, .tenant = t->tenant};
    t->next = o->services;
    o->services = t;
    o->n++;
    return t;
}

static struct otlp_service *service_of(struct serve_otlp *o, const char *tenant)
{
    struct tenant_service *t;

    pthread_mutex_lock(&o->lock);
    for (t = o->services; t && strcmp(t->tenant, tenant) != 0; t = t->next)
        ;
    if (!t)
        t = add_service(o, tenant);
    pthread_mutex_unlock(&o->lock);
    return t ? &t->service : NULL;
}

/* The service to hand the request to; NULL with the status and words otherwise. */
static struct otlp_service *let_in(struct serve_otlp *o, const struct http_request *q, int *ret_status,
                                   const char **ret_why)
{
    struct auth_identity who;
    struct otlp_service *s;

    *ret_status = door_check(o->auth, o->hosts, q, &who, ret_why);
    if (*ret_status)
        return NULL;
    if (!(who.scope & AUTH_WRITE)) {
        *ret_status = who.token_id[0] ? 403 : 401;
        *ret_why = who.token_id[0] ? "this token may not send profiles: it needs the scope write"
                                   : "a token is needed: header authorization: Bearer TOKEN";
        return NULL;
    }
    s = service_of(o, who.tenant);
    if (!s) {
        *ret_status = 503;
        *ret_why = "no memory for another tenant";
    }
    return s;
}

void serve_otlp_grpc(void *arg, struct http_request *q)
{
    const char *why = "";
    struct grpc_status st;
    int status;
    struct otlp_service *s = let_in(arg, q, &status, &why);

    if (s) {
        otlp_service_grpc(s, q);
        return;
    }
    grpc_status_set(&st,
                    status == 401   ? GRPC_UNAUTHENTICATED
                    : status == 503 ? GRPC_UNAVAILABLE
                                    : GRPC_PERMISSION_DENIED,
                    "%s", why);
    grpc_reply(q, &st, (struct str){0});
}

void serve_otlp_http(void *arg, struct http_request *q)
{
    const char *why = "";
    int status;
    struct otlp_service *s = let_in(arg, q, &status, &why);

    if (s)
        otlp_service_http(s, q);
    else
        http_reply_text(q, status, "%s\n", why);
}
