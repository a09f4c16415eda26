// SPDX-License-Identifier: Apache-2.0

// Package profiling profiles a Go program continuously and sends OTLP profiles: CPU time, memory, lock contention, blocking and
// goroutines, with the spans that were active.
//
//	exporter, err := otlpprofilegrpc.New(ctx, otlpprofilegrpc.WithEndpoint("localhost:4317"), otlpprofilegrpc.WithInsecure())
//	...
//	provider := profiling.NewProvider(profiling.WithExporter(exporter))
//	defer provider.Shutdown(ctx)
//
// A Provider starts by itself. It samples with Go's own profilers, so it needs neither cgo nor privileges, and never makes the
// program wait: collecting and sending happen on goroutines of its own, and what cannot be sent is dropped and counted.
package profiling
