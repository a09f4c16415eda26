// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"wick.dev/go/otlpprofilegrpc"
	"wick.dev/go/profiling"
)

func initProfiling(ctx context.Context) (*profiling.Provider, error) {
	// Create an OTLP exporter that sends profiles to your backend
	// This uses the same endpoint as your traces and metrics
	exporter, err := otlpprofilegrpc.New(ctx,
		otlpprofilegrpc.WithEndpoint(endpoint()),
		otlpprofilegrpc.WithInsecure(),
	)
	if err != nil {
		return nil, err
	}

	// Configure the profiling provider with CPU and memory profiling enabled
	// SampleRate of 100 means 100 samples per second, which is a good balance
	// between overhead and granularity
	provider := profiling.NewProvider(
		profiling.WithExporter(exporter),
		profiling.WithCPUProfiling(true),
		profiling.WithMemoryProfiling(true),
		profiling.WithSampleRate(100),
		profiling.WithExportInterval(10*time.Second),
	)

	return provider, nil
}

func processOrder(ctx context.Context, order Order) error {
	// Start a new span for this operation
	// The profiling SDK automatically picks up the trace context
	ctx, span := tracer.Start(ctx, "processOrder")
	defer span.End()

	// Attach a profiling scope to this span
	// This tells the profiler to tag samples collected during this span
	// with the span's trace ID and span ID
	profCtx := profiling.WithSpanContext(ctx)

	// Your business logic runs normally
	// Any CPU or memory samples collected during this block
	// will be linked to the trace span above
	result, err := calculateTotals(profCtx, order)
	if err != nil {
		span.RecordError(err)
		return err
	}

	return chargePayment(profCtx, result)
}
