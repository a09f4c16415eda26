// SPDX-License-Identifier: Apache-2.0

package profiling

import (
	"context"
	"runtime"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

type nowhere struct{}

func (nowhere) ExportProfiles(context.Context, []byte) error { return nil }
func (nowhere) Shutdown(context.Context) error               { return nil }

// BenchmarkExport is one export of CPU and memory with 2000 stacks of allocations: what a Provider costs per interval besides
// Go's own sampling.
func BenchmarkExport(b *testing.B) {
	rate := runtime.MemProfileRate
	runtime.MemProfileRate = 1
	for i := 0; i < 2000; i++ {
		kept = append(kept, branch(11, i))
	}
	runtime.MemProfileRate = rate
	runtime.GC()
	runtime.GC()
	p := NewProvider(WithExporter(nowhere{}), WithExportInterval(time.Hour))
	defer p.Shutdown(context.Background())
	burn(100 * time.Millisecond)
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		p.ForceFlush(context.Background())
	}
}

//go:noinline
func branch(n, way int) []byte {
	if n == 0 {
		return make([]byte, 64)
	}
	if way&1 == 0 {
		return branch(n-1, way>>1)
	}
	return branch(n-1, way>>1)[:64:64]
}

// BenchmarkSpan is a span without and with SpanProcessor.
func BenchmarkSpan(b *testing.B) {
	for name, options := range map[string][]sdktrace.TracerProviderOption{"without": nil,
		"with": {sdktrace.WithSpanProcessor(SpanProcessor())}} {
		tracer := sdktrace.NewTracerProvider(options...).Tracer("t")
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; i < b.N; i++ {
				_, span := tracer.Start(context.Background(), "s")
				span.End()
			}
		})
	}
}
