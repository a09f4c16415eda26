/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of attributes, as OpenTelemetry's semantic conventions and pprof's mapping to OTLP define them; at the end those
 * that wick adds. Code names an attribute by its macro, so that a misspelled one does not compile. Tables of names that
 * are data (what to detect, what Kubernetes provides) list them as text.
 */
#ifndef MODEL_SEMCONV_H
#define MODEL_SEMCONV_H

/* Resources. */
#define SEMCONV_SERVICE_NAME "service.name"
#define SEMCONV_SERVICE_VERSION "service.version"
#define SEMCONV_SERVICE_NAMESPACE "service.namespace"
#define SEMCONV_SERVICE_INSTANCE_ID "service.instance.id"
#define SEMCONV_PROCESS_PID "process.pid"
#define SEMCONV_PROCESS_EXECUTABLE_NAME "process.executable.name"
#define SEMCONV_PROCESS_EXECUTABLE_PATH "process.executable.path"
#define SEMCONV_HOST_NAME "host.name"
#define SEMCONV_CONTAINER_ID "container.id"

/* Mappings: the build id in the three forms that the conventions define. */
#define SEMCONV_BUILD_ID_GNU "process.executable.build_id.gnu"
#define SEMCONV_BUILD_ID_GO "process.executable.build_id.go"
#define SEMCONV_BUILD_ID_HTLHASH "process.executable.build_id.htlhash"

/* Locations and samples. */
#define SEMCONV_FRAME_TYPE "profile.frame.type"
#define SEMCONV_THREAD_NAME "thread.name"
#define SEMCONV_THREAD_ID "thread.id"

/* What pprof has and OTLP has no field for. */
#define SEMCONV_PPROF_HAS_FUNCTIONS "pprof.mapping.has_functions"
#define SEMCONV_PPROF_HAS_FILENAMES "pprof.mapping.has_filenames"
#define SEMCONV_PPROF_HAS_LINE_NUMBERS "pprof.mapping.has_line_numbers"
#define SEMCONV_PPROF_HAS_INLINE_FRAMES "pprof.mapping.has_inline_frames"
#define SEMCONV_PPROF_IS_FOLDED "pprof.location.is_folded"
#define SEMCONV_PPROF_DEFAULT_SAMPLE_TYPE "pprof.scope.default_sample_type"
#define SEMCONV_PPROF_DROP_FRAMES "pprof.profile.drop_frames"
#define SEMCONV_PPROF_KEEP_FRAMES "pprof.profile.keep_frames"
#define SEMCONV_PPROF_COMMENT "pprof.profile.comment"
#define SEMCONV_PPROF_NAME \
    "pprof.profile.name" /* what Go and Pyroscope call the profile: mutex, block, or a name of its own */
#define SEMCONV_PPROF_DOC_URL "pprof.profile.doc_url"

/* What wick's own senders say about themselves, in the attributes of a scope. */
#define SEMCONV_WICK_RATE "wick.rate"
#define SEMCONV_WICK_LOST "wick.lost"
#define SEMCONV_WICK_GOVERNOR "wick.governor"
#define SEMCONV_WICK_VIA "wick.via"               /* how an agent samples: bpf, old-bpf or perf */
#define SEMCONV_WICK_VIA_REASON "wick.via_reason" /* why not in a better way */
#define SEMCONV_WICK_LACKS "wick.lacks"           /* what the kernel refuses to it, and why */
#define SEMCONV_WICK_CPU_NS "wick.cpu_ns"
#define SEMCONV_WICK_PROFILE_TYPES "wick.profile.types"
/* a random number of libwick's in this process, in hex: in its profiles, in the process context, and in the agent's profiles */
/* The service.namespace of files that were uploaded, which are not services (query_compile()). */
#define SEMCONV_WICK_UPLOADS "wick.uploads"
#define SEMCONV_WICK_PROCESS "wick.process"
/* the agent's profiles with this are not of the time in which the process sends its own */
#define SEMCONV_WICK_LEAVES_OUT "wick.leaves_out"
/* the agent's profiles with this are of that time: they count unless the process's own arrive, too */
#define SEMCONV_WICK_ALSO_SENT "wick.also_sent"

/* Of a process: the runtime whose functions are not in its stacks, only the native ones of its interpreter. */
#define SEMCONV_WICK_HIDDEN_RUNTIME "wick.hidden_runtime"

/* Of a sample: "inferred" if a caller in its stack was found without call frame information. */
#define SEMCONV_WICK_STACK "wick.stack"

#endif
