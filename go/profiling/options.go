// SPDX-License-Identifier: Apache-2.0

package profiling

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
)

// Exporter sends profiles. otlpprofilegrpc and otlpprofilehttp have one each.
type Exporter interface {
	// ExportProfiles sends an encoded ExportProfilesServiceRequest of OTLP, and repeats it while that may help.
	ExportProfiles(ctx context.Context, request []byte) error
	// Shutdown ends retries and closes connections.
	Shutdown(ctx context.Context) error
}

// Defaults of the options.
const (
	DefaultSampleRate          = 100
	DefaultExportInterval      = 10 * time.Second
	DefaultMutexFraction       = 5
	DefaultBlockRate           = 10 * time.Microsecond
	DefaultMaxStackDepth       = 128
	DefaultMaxSamplesPerExport = 10000
)

type config struct {
	exporter                             Exporter
	cpu, memory, mutex, block, goroutine bool
	rate                                 int
	mutexFraction                        int
	blockRate                            time.Duration
	interval                             time.Duration
	depth, samples                       int
	resource                             *resource.Resource
	attributes                           []attribute.KeyValue
	onError                              func(error)
}

// Option configures a Provider.
type Option func(*config)

// WithExporter sets where profiles are sent. Without one, the Provider only serves Handler.
func WithExporter(e Exporter) Option { return func(c *config) { c.exporter = e } }

// WithCPUProfiling turns CPU time on or off; it is on by default.
func WithCPUProfiling(on bool) Option { return func(c *config) { c.cpu = on } }

// WithMemoryProfiling turns allocations and live memory on or off; it is on by default. Go samples one allocation per
// runtime.MemProfileRate bytes whether they are sent or not.
func WithMemoryProfiling(on bool) Option { return func(c *config) { c.memory = on } }

// WithMutexProfiling turns lock contention on or off; it is off by default. A fraction that the program has set by
// runtime.SetMutexProfileFraction is kept, else it is DefaultMutexFraction.
func WithMutexProfiling(on bool) Option { return func(c *config) { c.mutex = on } }

// WithMutexProfileFraction turns lock contention on and samples one in n events.
func WithMutexProfileFraction(n int) Option {
	return func(c *config) { c.mutex, c.mutexFraction = n > 0, n }
}

// WithBlockProfiling turns blocking (channels, select, locks, condition variables) on or off; it is off by default. It calls
// runtime.SetBlockProfileRate with DefaultBlockRate.
func WithBlockProfiling(on bool) Option { return func(c *config) { c.block = on } }

// WithBlockProfileRate turns blocking on and samples one event per d blocked on average.
func WithBlockProfileRate(d time.Duration) Option {
	return func(c *config) { c.block, c.blockRate = d > 0, d }
}

// WithGoroutineProfiling turns a snapshot of all goroutines with each export on or off; it is off by default. Taking it stops
// the program for a moment that grows with the number of goroutines.
func WithGoroutineProfiling(on bool) Option { return func(c *config) { c.goroutine = on } }

// WithSampleRate sets the CPU samples per second; the default is 100, Go's own rate. Other rates need Linux; where the kernel or
// a container does not allow what it takes, the rate stays 100, and profiles say so. See docs/go.md.
func WithSampleRate(hz int) Option { return func(c *config) { c.rate = hz } }

// WithExportInterval sets the time between exports; the default is 10 s.
func WithExportInterval(d time.Duration) Option { return func(c *config) { c.interval = d } }

// WithMaxStackDepth cuts stacks: the frames nearest to the leaf stay, the rest is the frame "[truncated]". The default is 128.
func WithMaxStackDepth(n int) Option { return func(c *config) { c.depth = n } }

// WithMaxSamplesPerExport limits the distinct samples of each profile of an export: the largest stay, the others are summed up
// in the frame "[truncated]", so that totals stay right. The default is 10000.
func WithMaxSamplesPerExport(n int) Option { return func(c *config) { c.samples = n } }

// WithResource sets the resource, usually the one that the TracerProvider has. What it lacks (service.name, process.pid,
// host.name ...) is added.
func WithResource(r *resource.Resource) Option { return func(c *config) { c.resource = r } }

// WithServiceName sets service.name; the default is OTEL_SERVICE_NAME, else the name of the executable.
func WithServiceName(name string) Option {
	return WithResourceAttributes(attribute.String("service.name", name))
}

// WithResourceAttributes adds attributes to the resource; they win over WithResource and the environment.
func WithResourceAttributes(list ...attribute.KeyValue) Option {
	return func(c *config) { c.attributes = append(c.attributes, list...) }
}

// WithErrorHandler sets the function called with the error of a failed export; the default is otel.Handle, at most once a minute.
func WithErrorHandler(f func(error)) Option { return func(c *config) { c.onError = f } }

func newConfig(options []Option) config {
	c := config{cpu: true, memory: true, depth: DefaultMaxStackDepth, samples: DefaultMaxSamplesPerExport}
	for _, o := range options {
		if o != nil {
			o(&c)
		}
	}
	if c.rate <= 0 {
		c.rate = DefaultSampleRate
	}
	if c.rate > 1000 {
		c.rate = 1000
	}
	if c.interval <= 0 {
		c.interval = DefaultExportInterval
	}
	if c.interval < 10*time.Millisecond {
		c.interval = 10 * time.Millisecond
	}
	if c.blockRate <= 0 {
		c.blockRate = DefaultBlockRate
	}
	return c
}
