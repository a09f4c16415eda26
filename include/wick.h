/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libwick: continuous profiling inside a C or C++ process. This page is the whole public API.
 *
 *     struct wick_options o = WICK_OPTIONS_INIT;
 *     o.service_name = "checkout";
 *     o.endpoint = "http://localhost:4317";
 *     struct wick_provider *p = wick_provider_new(&o);      // it samples from here on
 *     if (!p)
 *         fprintf(stderr, "profiling is off: %s\n", wick_last_error());
 *     ...
 *     wick_provider_free(p);                                // sends what is left
 *
 * Promises
 *   - The host is never harmed: no allocation by malloc, no stdio, no lock and no unbounded loop in a signal handler,
 *     no abort, bounded memory, one background thread ("wick"). A failure costs profiles, never the program.
 *   - One provider per process. A second wick_provider_new() fails with WICK_EBUSY.
 *   - All functions may be called from any thread, none from a signal handler. A NULL provider means "the one there
 *     is"; without one, functions return WICK_ESTATE.
 *   - After fork() the child profiles on with the same settings and empty numbers. exec() ends it.
 *
 * Functions return 0 or a positive count, or one of the negative WICK_E codes; wick_last_error() then has the words for
 * the calling thread. Structs that may grow begin with their size, so that a program built against an older header keeps
 * working: use the _INIT macros.
 */
#ifndef WICK_H
#define WICK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

#define WICK_API_VERSION 1

/* --- errors --- */
enum wick_error {
    WICK_OK = 0,
    WICK_EINVAL = -1,       /* an option or argument is wrong; the words name it */
    WICK_ENOMEM = -2,       /* no memory within the budget */
    WICK_EBUSY = -3,        /* there is a provider already */
    WICK_ESTATE = -4,       /* no provider, or it is stopped */
    WICK_ESYSTEM = -5,      /* the kernel refused; the words carry what and why */
    WICK_EUNREACHABLE = -6, /* the collector does not answer */
    WICK_EREFUSED = -7,     /* the collector answered no */
    WICK_EUNSUPPORTED = -8, /* this build, kernel or program cannot; the words name the way that works */
    WICK_EADDRINUSE = -9,   /* the port is taken */
};

/* A few words for a code, never NULL. */
const char *wick_strerror(int code);
/* The words of the last failure of the calling thread, "" when there was none. Valid until its next failure. */
const char *wick_last_error(void);
/* Its code, 0 when there was none. */
int wick_last_code(void);
/* "0.1.0" */
const char *wick_version(void);

/* --- provider --- */
enum wick_type {
    WICK_CPU = 1 << 0,   /* CPU time, by a timer on each thread's CPU clock */
    WICK_WALL = 1 << 1,  /* wall-clock time of all threads; sleeping threads are not woken */
    WICK_ALLOC = 1 << 2, /* bytes and objects allocated */
    WICK_HEAP = 1 << 3,  /* bytes and objects in use; implies WICK_ALLOC */
    WICK_LOCK = 1 << 4,  /* time waited for mutexes and rwlocks; may change how a contended program behaves */
};

enum wick_protocol {
    WICK_PROTOCOL_AUTO = 0, /* from OTEL_EXPORTER_OTLP_PROTOCOL, else HTTP for port 4318, else gRPC */
    WICK_PROTOCOL_GRPC = 1,
    WICK_PROTOCOL_HTTP = 2, /* OTLP/HTTP with protobuf */
};

enum wick_compression {
    WICK_COMPRESSION_DEFAULT = 0, /* gzip */
    WICK_COMPRESSION_NONE = 1,
    WICK_COMPRESSION_GZIP = 2,
};

/*
 * All fields but size may stay zero. Strings are copied. Where a field is zero, the environment is asked:
 * OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES, OTEL_SDK_DISABLED, OTEL_EXPORTER_OTLP_[PROFILES_]{ENDPOINT, PROTOCOL,
 * HEADERS, COMPRESSION, TIMEOUT, INSECURE, CERTIFICATE}, then the default in brackets.
 */
struct wick_options {
    size_t size; /* sizeof(struct wick_options): WICK_OPTIONS_INIT */

    /* who it is */
    const char *service_name;        /* [the executable's name] */
    const char *service_version;     /* [the executable's build id] */
    const char *resource_attributes; /* "key=value,key=value", values percent-encoded as in OTEL_RESOURCE_ATTRIBUTES */

    /* where it goes: an endpoint, a file, or nowhere (wick_serve_pprof() and wick_snapshot() work without) */
    const char *endpoint; /* "http://host:4317", "https://host:4318", "host:4317"; "none" for no export */
    int protocol;         /* enum wick_protocol */
    int insecure;         /* 1: no TLS, even for host:port without a scheme; 0: as the scheme says */
    const char *headers;  /* "key=value,key=value" sent with each request: authentication */
    const char *ca_file;  /* PEM of the authority to trust [the system's] */
    int compression;      /* enum wick_compression */
    unsigned timeout_ms;  /* of one export [10000] */
    const char *
        file; /* gzip'd pprof, written at flush and stop: FILE is the first type of types, others go beside it: out.heap.pb.gz */

    /* what is sampled */
    unsigned types; /* WICK_CPU | ... [WICK_CPU] */
    unsigned rate;  /* samples a second of each thread's CPU or wall time, 1..10000 [100]; 19 is a quiet rate */
    uint64_t alloc_interval;     /* one allocation sample every so many bytes, on average [512 KiB] */
    uint64_t lock_interval_ns;   /* one lock sample per so much waiting, on average [100000] */
    unsigned export_interval_ms; /* [10000] */
    unsigned max_depth;   /* frames of a stack, 1..1024 [128]; deeper stacks lose their root end and are marked */
    unsigned max_samples; /* distinct (stack, attributes, link) of one export [10000]; the rest is summed up under
                                 the stack "[truncated]", so that totals stay right */
    int signal;           /* the signal that samples [a free real-time signal, else SIGPROF] */

    /* what it may cost */
    double cpu_budget;    /* share of the process's CPU, 0.001..1 [0.01]; above it the rate is lowered */
    size_t memory_budget; /* bytes of everything libwick holds [64 MiB] */

    int paused; /* 1: begin paused; wick_resume() starts sampling */
};
#define WICK_OPTIONS_INIT           \
    {                               \
        sizeof(struct wick_options) \
    }

struct wick_provider;

/* Starts profiling. NULL on failure, with wick_last_error(). */
struct wick_provider *wick_provider_new(const struct wick_options *options);
/* Stops, sends what is left, frees. The last export ends after timeout_ms, or 2 s if that was not set. Takes NULL. */
void wick_provider_free(struct wick_provider *p);

/* Sampling off and on. stop also ends the background thread, after a last export; start begins anew. */
int wick_start(struct wick_provider *p);
int wick_stop(struct wick_provider *p);
/* As cheap as it gets, for the moments that should not be measured. Pauses do not nest. */
int wick_pause(struct wick_provider *p);
int wick_resume(struct wick_provider *p);
/* Exports now and waits until it is done, at most timeout_ms (0: the option's). */
int wick_flush(struct wick_provider *p, unsigned timeout_ms);

struct wick_stats {
    size_t size;
    uint64_t samples[5];    /* taken, by bit number of enum wick_type */
    uint64_t lost;          /* dropped because a ring was full or a thread unknown */
    uint64_t truncated;     /* stacks cut: by depth, or where no unwind rule was known */
    uint64_t overflow;      /* samples that went to "[truncated]" because of max_samples */
    uint64_t live;          /* sampled allocations in use now */
    uint64_t threads;       /* with a timer now */
    uint64_t modules;       /* loaded objects with unwind tables */
    uint64_t handler_ns;    /* CPU time spent in handlers and hooks, estimated from every 16th one */
    uint64_t background_ns; /* CPU time of the background thread */
    uint64_t memory;        /* bytes held */
    uint64_t exports, failed_exports;
    uint64_t exported_bytes;
    unsigned rate;        /* in force now, after the governor */
    unsigned governor;    /* times that the rate was lowered for the budget */
    char last_error[256]; /* of the last failed export, "" when the last one succeeded */
};
#define WICK_STATS_INIT           \
    {                             \
        sizeof(struct wick_stats) \
    }

int wick_get_stats(struct wick_provider *p, struct wick_stats *ret);

/* --- spans and labels of the calling thread --- */
/* Samples taken from here to the matching leave carry a link to this span. Nests at least 32 deep. Published to readers
 * outside the process as otel_thread_ctx_v1 (OTEP 4947); what another SDK publishes there is read as well. Costs a few
 * nanoseconds; works (and publishes) without a provider. */
void wick_span_enter(const uint8_t trace_id[16], const uint8_t span_id[8]);
void wick_span_leave(void);

/* Attaches key=value to this thread's samples until it is set again; value NULL removes it. At most 8 keys a thread and
 * 256 keys a process; key <= 63 bytes, value <= 127. 0, WICK_EINVAL or WICK_ENOMEM. */
int wick_label_set(const char *key, const char *value);
void wick_label_clear(void);

/* --- profiles on request --- */
/* Serves /debug/pprof/ as Go's net/http/pprof does, on "127.0.0.1:6060", ":6060" (loopback), "[::1]:6060" or
 * "0.0.0.0:6060"; port 0 picks one. Returns the port. Types that are not sampled all the time start with the request.
 * `go tool pprof http://localhost:6060/debug/pprof/profile?seconds=30` works. Served by the background thread; ends with
 * the provider. */
int wick_serve_pprof(struct wick_provider *p, const char *address);

/* The profile of one type since start (alloc, heap, lock) or since the last snapshot (cpu, wall), as gzip'd pprof. *ret is
 * to be given to wick_snapshot_free(). */
int wick_snapshot(struct wick_provider *p, unsigned type, void **ret, size_t *ret_size);
void wick_snapshot_free(void *p, size_t size);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
