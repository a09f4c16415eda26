/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libwick: continuous profiling inside a C or C++ process. This page is the whole public API.
 *
 *     struct wick_options o = WICK_OPTIONS_INIT;
 *     o.service_name = "checkout";
 *     o.endpoint = "http://localhost:4317";
 *     struct wick_provider *p = wick_provider_new(&o);      // sampling starts here
 *     if (!p)
 *         fprintf(stderr, "profiling is off: %s\n", wick_last_error());
 *     ...
 *     wick_provider_free(p);                                // sends the remaining samples
 *
 * Promises
 *   - The host is never harmed: no malloc(), no stdio, no lock and no unbounded loop in a signal handler, no abort,
 *     bounded memory, one background thread ("wick"). A failure costs profiles, never the program.
 *   - One provider per process. A second wick_provider_new() fails with WICK_EBUSY.
 *   - All functions may be called from any thread, none from a signal handler. A NULL provider means the current one;
 *     if there is none, functions return WICK_ESTATE.
 *   - After fork() profiling continues in the child with the same settings and all counts at zero. exec() ends it.
 *
 * Functions return 0 or a positive count, or one of the negative WICK_E codes; wick_last_error() then returns the error
 * message of the calling thread. Structs that may grow begin with their size, so that a program built against an older
 * header keeps working: use the _INIT macros.
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
    WICK_EINVAL = -1,       /* an option or argument is invalid; the error message names it */
    WICK_ENOMEM = -2,       /* out of memory, or the memory budget is used up */
    WICK_EBUSY = -3,        /* there already is a provider */
    WICK_ESTATE = -4,       /* no provider, or it is stopped */
    WICK_ESYSTEM = -5,      /* the kernel refused; the error message says what and why */
    WICK_EUNREACHABLE = -6, /* the collector does not answer */
    WICK_EREFUSED = -7,     /* the collector rejected the request */
    WICK_EUNSUPPORTED = -8, /* not possible with this build, kernel or program; see the error message */
    WICK_EADDRINUSE = -9,   /* the port is taken */
};

/* A short description of an error code, never NULL. */
const char *wick_strerror(int code);
/* The error message of the calling thread's last failure, "" if there was none. Valid until its next failure. */
const char *wick_last_error(void);
/* The error code of that failure, 0 if there was none. */
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
    WICK_PROTOCOL_AUTO = 0, /* from OTEL_EXPORTER_OTLP_PROTOCOL, else HTTP for port 4318 or a path, gRPC for 4317;
                                at other ports of an http(s) URL the peer is asked: HTTP if it accepts that, else gRPC */
    WICK_PROTOCOL_GRPC = 1,
    WICK_PROTOCOL_HTTP = 2, /* OTLP/HTTP with protobuf */
};

enum wick_compression {
    WICK_COMPRESSION_DEFAULT = 0, /* gzip */
    WICK_COMPRESSION_NONE = 1,
    WICK_COMPRESSION_GZIP = 2,
};

/*
 * All fields but size may stay zero. Strings are copied. Where a field is zero, the value is taken from the
 * environment: OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES, OTEL_SDK_DISABLED, OTEL_EXPORTER_OTLP_[PROFILES_]{ENDPOINT,
 * PROTOCOL, HEADERS, COMPRESSION, TIMEOUT, INSECURE, CERTIFICATE}; if that is not set either, the default in brackets
 * applies.
 */
struct wick_options {
    size_t size; /* sizeof(struct wick_options): WICK_OPTIONS_INIT */

    /* identity of the service */
    const char *service_name;        /* [the executable's name] */
    const char *service_version;     /* [the executable's build id] */
    const char *resource_attributes; /* "key=value,key=value", values percent-encoded as in OTEL_RESOURCE_ATTRIBUTES */

    /* destination: an endpoint, a file, or none (wick_serve_pprof() and wick_snapshot() work without one) */
    const char *endpoint; /* "http://host:4317", "https://host:4318", "host:4317"; "none" for no export */
    int protocol;         /* enum wick_protocol */
    int insecure;         /* 1: no TLS, even for host:port without a scheme; 0: the scheme decides */
    const char *headers;  /* "key=value,key=value" sent with each request, for example for authentication */
    const char *ca_file;  /* PEM file of the certificate authority to trust [the system's] */
    int compression;      /* enum wick_compression */
    unsigned timeout_ms;  /* of one export [10000] */
    const char *file;     /* gzip'd pprof of the first type, written at flush and stop; of others: out.heap.pb.gz */

    /* what is sampled */
    unsigned types; /* WICK_CPU | ... [WICK_CPU] */
    unsigned rate;  /* samples a second of each thread's CPU or wall time, 1..10000 [100]; 19 is a quiet rate */
    uint64_t alloc_interval;     /* mean number of bytes between two allocation samples [512 KiB] */
    uint64_t lock_interval_ns;   /* mean waiting time between two lock samples, in nanoseconds [100000] */
    unsigned export_interval_ms; /* [10000] */
    unsigned max_depth;   /* frames of a stack, 1..1024 [128]; deeper stacks lose their root end and are marked */
    unsigned max_samples; /* distinct (stack, attributes, link) of one export [10000]; the rest is summed up under
                                 the stack "[truncated]", so that totals stay right */
    int signal;           /* the signal used for sampling [a free real-time signal, else SIGPROF] */

    /* limits on overhead */
    double cpu_budget;    /* share of the process's CPU, 0.001..1 [0.01]; above it the rate is lowered for a while */
    size_t memory_budget; /* bytes of all memory that libwick holds [64 MiB] */

    int paused; /* 1: start paused; wick_resume() starts sampling */
};
#ifdef __cplusplus
static inline struct wick_options wick_options_init_(void)
{
    struct wick_options o = {};

    o.size = sizeof(o);
    return o;
}
#define WICK_OPTIONS_INIT wick_options_init_()
#else
#define WICK_OPTIONS_INIT                   \
    {                                       \
        .size = sizeof(struct wick_options) \
    }
#endif

struct wick_provider;

/* Starts profiling. NULL on failure, with wick_last_error(). */
struct wick_provider *wick_provider_new(const struct wick_options *options);
/* Stops, sends the remaining samples and frees p. The last export may take timeout_ms, or 2 s if that was not set. p
 * may be NULL. */
void wick_provider_free(struct wick_provider *p);

/* Turns sampling on and off. wick_stop() also ends the background thread, after a last export; wick_start() starts it
 * again. */
int wick_start(struct wick_provider *p);
int wick_stop(struct wick_provider *p);
/* A cheap way to exclude a section of the program from profiles. Pauses do not nest. */
int wick_pause(struct wick_provider *p);
int wick_resume(struct wick_provider *p);
/* Exports now and waits until that is done, at most timeout_ms (0: that of the options plus 1 s). */
int wick_flush(struct wick_provider *p, unsigned timeout_ms);

struct wick_stats {
    size_t size;
    uint64_t samples[5];    /* taken, by bit number of enum wick_type */
    uint64_t lost;          /* dropped because a ring was full or a thread unknown */
    uint64_t truncated;     /* stacks cut off at max_depth, or where no unwind rule was known */
    uint64_t overflow;      /* samples that went to "[truncated]" because of max_samples */
    uint64_t live;          /* sampled allocations in use now */
    uint64_t threads;       /* threads that have a timer now */
    uint64_t modules;       /* loaded objects with unwind tables */
    uint64_t handler_ns;    /* CPU time spent in signal handlers, estimated from one in 64 samples */
    uint64_t background_ns; /* CPU time of the background thread */
    uint64_t memory;        /* bytes held */
    uint64_t exports, failed_exports;
    uint64_t exported_bytes;
    unsigned rate;        /* the rate now in use, after the governor */
    unsigned governor;    /* how often the rate was lowered to stay within the CPU budget */
    char last_error[256]; /* of the last failed export, "" when the last one succeeded */
};
#ifdef __cplusplus
static inline struct wick_stats wick_stats_init_(void)
{
    struct wick_stats o = {};

    o.size = sizeof(o);
    return o;
}
#define WICK_STATS_INIT wick_stats_init_()
#else
#define WICK_STATS_INIT                   \
    {                                     \
        .size = sizeof(struct wick_stats) \
    }
#endif

int wick_get_stats(struct wick_provider *p, struct wick_stats *ret);

/* --- spans and labels of the calling thread --- */
/* Samples taken between this call and the matching wick_span_leave() carry a link to this span. Spans nest at least 32
 * deep. The span is published to readers outside the process as otel_thread_ctx_v1 (OTEP 4947); a span that another SDK
 * publishes there is read as well. A call costs a few nanoseconds; it works (and publishes) without a provider. */
void wick_span_enter(const uint8_t trace_id[16], const uint8_t span_id[8]);
void wick_span_leave(void);

/* Attaches key=value to this thread's samples until the key is set again; value NULL removes it. At most 8 keys per
 * thread and 256 keys per process; key <= 63 bytes, value <= 127. Returns 0, WICK_EINVAL or WICK_ENOMEM. */
int wick_label_set(const char *key, const char *value);
void wick_label_clear(void);

/* --- profiles on request --- */
/* Serves /debug/pprof/ as Go's net/http/pprof does, on "127.0.0.1:6060", ":6060" (loopback), "[::1]:6060" or
 * "0.0.0.0:6060"; port 0 picks a free port. Returns the port. A type that is not sampled continuously is turned on by a
 * request for it. `go tool pprof http://localhost:6060/debug/pprof/profile?seconds=30` works. The background thread
 * serves the requests; serving ends with the provider. */
int wick_serve_pprof(struct wick_provider *p, const char *address);

/* The profile of one type since the start (alloc, heap, lock) or since the last snapshot (cpu, wall), as gzip'd pprof.
 * The caller frees *ret with wick_snapshot_free(). */
int wick_snapshot(struct wick_provider *p, unsigned type, void **ret, size_t *ret_size);
void wick_snapshot_free(void *p, size_t size);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
