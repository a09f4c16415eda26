from opentelemetry import trace
from opentelemetry.profiling import ContinuousProfiler, OTLPProfileExporter

# Create the profile exporter pointing to your collector
# The exporter batches profiles and sends them periodically
exporter = OTLPProfileExporter(
    endpoint="http://otel-collector:4317",
    insecure=True,
)

# Initialize the continuous profiler
# sample_rate=100 means we sample the call stack 100 times per second
# This adds roughly 1-2% CPU overhead, which is acceptable for production
profiler = ContinuousProfiler(
    exporter=exporter,
    sample_rate=100,
    profile_types=["cpu", "wall", "alloc"],
)

# Start profiling - this runs in a background thread
profiler.start()

# Your application code works normally
# The profiler samples the call stack in the background
# and correlates samples with active spans automatically
tracer = trace.get_tracer("my-service")

def handle_request(request):
    with tracer.start_as_current_span("handle_request") as span:
        # Profile data collected during this span
        # will be linked to it via trace context
        result = expensive_computation(request.data)
        return format_response(result)
