// SPDX-License-Identifier: Apache-2.0

// Command checkout has traces and a continuous profile. profiling.go is the code of OpenTelemetry's guides to the profiling
// signal with the import paths of this module; this file is the program around it. In each order calculateTotals needs three
// times the CPU time of chargePayment.
//
//	checkout [endpoint [orders]]     prints the trace and the span id of each order
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"wick.dev/go/profiling"
)

// Order is what a customer wants.
type Order struct{ Rounds int }

var tracer trace.Tracer

func argument(i int, otherwise string) string {
	if len(os.Args) > i {
		return os.Args[i]
	}
	return otherwise
}

func endpoint() string { return argument(1, "localhost:4317") }

// spin uses CPU time of this thread for n rounds.
//
//go:noinline
func spin(n int) uint64 {
	x := uint64(88172645463325252)
	for i := 0; i < n; i++ {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

func calculateTotals(ctx context.Context, order Order) (uint64, error) {
	return spin(3 * order.Rounds), ctx.Err()
}

func chargePayment(ctx context.Context, total uint64) error {
	if spin(orderRounds)+total == 0 {
		return fmt.Errorf("nothing to charge")
	}
	return ctx.Err()
}

const orderRounds = 150_000_000

func main() {
	ctx := context.Background()
	provider, err := initProfiling(ctx)
	if err != nil {
		log.Fatal(err)
	}
	traces := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(profiling.SpanProcessor()))
	otel.SetTracerProvider(traces)
	tracer = traces.Tracer("checkout")
	orders, err := strconv.Atoi(argument(2, "1000000"))
	if err != nil {
		log.Fatal(err)
	}
	for i := 0; i < orders; i++ {
		rootCtx, root := tracer.Start(ctx, "order")
		if err := processOrder(rootCtx, Order{orderRounds}); err != nil {
			log.Print(err)
		}
		fmt.Println(root.SpanContext().TraceID(), root.SpanContext().SpanID())
		root.End()
	}
	stop, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if err := provider.Shutdown(stop); err != nil {
		log.Fatal(err)
	}
}
