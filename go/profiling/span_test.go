// SPDX-License-Identifier: Apache-2.0

package profiling

import (
	"context"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// spansOf returns the CPU time of each span in stacks with the function.
func spansOf(list []decoded, function string) map[string]int64 {
	found := map[string]int64{}
	for _, r := range list {
		for _, s := range r.samples {
			if s.kind == "cpu" && strings.Contains(s.stack, function) {
				found[s.span] += s.value
			}
		}
	}
	return found
}

//go:noinline
func inSpan(d time.Duration) int { return burn(d) + 1 }

//go:noinline
func afterSpan(d time.Duration) int { return burn(d) + 2 }

// checkSpans runs step again and again until samples of both functions were seen, all of inSpan with a span of ids and none of
// afterSpan with any.
func checkSpans(t *testing.T, step func() (span string)) {
	t.Helper()
	k := &keeper{}
	p := NewProvider(WithExporter(k), WithMemoryProfiling(false), WithExportInterval(time.Hour))
	defer p.Shutdown(context.Background())
	ids := map[string]bool{}
	until(t, p, k, func() { ids[step()] = true }, func(list []decoded) bool {
		return len(spansOf(list, "inSpan")) > 0 && len(spansOf(list, "afterSpan")) > 0
	})
	for id := range spansOf(k.all(), "inSpan") {
		if !ids[id] {
			t.Errorf("CPU time of a span has the link %q", id)
		}
	}
	for id := range spansOf(k.all(), "afterSpan") {
		if id != "" {
			t.Errorf("CPU time after a span has the link %q", id)
		}
	}
}

func id(s trace.Span) string { return s.SpanContext().SpanID().String() }

const bit = 30 * time.Millisecond

func TestDo(t *testing.T) {
	tracer := sdktrace.NewTracerProvider().Tracer("t")
	checkSpans(t, func() string {
		ctx, span := tracer.Start(context.Background(), "s")
		defer span.End()
		Do(ctx, func(context.Context) { inSpan(bit) })
		afterSpan(bit)
		return id(span)
	})
	before := getLabels()
	func() {
		defer func() { recover() }()
		ctx, _ := tracer.Start(context.Background(), "s")
		Do(ctx, func(context.Context) { panic("x") })
	}()
	if getLabels() != before {
		t.Error("a panic leaves the labels")
	}
	Do(context.Background(), func(ctx context.Context) {
		if ctx != context.Background() {
			t.Error("no span, no labels")
		}
	})
}

func TestWithSpanContext(t *testing.T) {
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(SpanProcessor())).Tracer("t")
	checkSpans(t, func() string {
		ctx, span := tracer.Start(context.Background(), "s")
		ctx = WithSpanContext(ctx)
		WithSpanContext(ctx)
		inSpan(bit)
		span.End()
		afterSpan(bit)
		return id(span)
	})
	if WithSpanContext(context.Background()) != context.Background() {
		t.Error("no span, no labels")
	}
}

func TestWithSpanContextAlone(t *testing.T) { // without the processor: the next span replaces it
	tracer := sdktrace.NewTracerProvider().Tracer("t")
	done := make(chan bool)
	checkSpans(t, func() string {
		var s string
		go func() { // labels end with the goroutine
			ctx, span := tracer.Start(context.Background(), "s")
			WithSpanContext(ctx)
			inSpan(bit)
			span.End()
			s = id(span)
			done <- true
		}()
		<-done
		afterSpan(bit)
		return s
	})
}

func TestSpanProcessor(t *testing.T) {
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(SpanProcessor())).Tracer("t")
	checkSpans(t, func() string { // without a call
		_, span := tracer.Start(context.Background(), "s")
		inSpan(bit)
		span.End()
		afterSpan(bit)
		return id(span)
	})
	checkSpans(t, func() string { // a child gives its parent back, whatever the context was
		ctx, parent := tracer.Start(context.Background(), "parent")
		_, child := tracer.Start(ctx, "child")
		_, other := tracer.Start(context.Background(), "other")
		other.End()
		child.End()
		inSpan(bit)
		parent.End()
		afterSpan(bit)
		return id(parent)
	})
	checkSpans(t, func() string { // goroutines inherit it
		_, span := tracer.Start(context.Background(), "s")
		done := make(chan bool)
		go func() { inSpan(bit); done <- true }()
		<-done
		span.End()
		afterSpan(bit)
		return id(span)
	})
}

func TestLabelsOfTheProgramStay(t *testing.T) {
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(SpanProcessor())).Tracer("t")
	k := &keeper{}
	p := NewProvider(WithExporter(k), WithMemoryProfiling(false), WithExportInterval(time.Hour))
	defer p.Shutdown(context.Background())
	has := func(list []decoded, function string, linked bool) bool {
		for _, r := range list {
			for _, s := range r.samples {
				if strings.Contains(s.stack, function) && s.attrs["tenant"] == "a" && (s.span != "") == linked {
					return true
				}
			}
		}
		return false
	}
	step := func() {
		pprof.Do(context.Background(), pprof.Labels("tenant", "a"), func(ctx context.Context) {
			_, span := tracer.Start(ctx, "s")
			inSpan(bit)
			span.End()
			afterSpan(bit)
		})
	}
	until(t, p, k, step, func(list []decoded) bool {
		return has(list, "inSpan", true) && has(list, "afterSpan", false)
	})
}

// A span that another goroutine ends leaves its labels on the one that started it; the second export after that leaves them out.
func TestLabelsThatOutliveTheirSpan(t *testing.T) {
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(SpanProcessor())).Tracer("t")
	k := &keeper{}
	p := NewProvider(WithExporter(k), WithMemoryProfiling(false), WithExportInterval(time.Hour))
	defer p.Shutdown(context.Background())
	done := make(chan bool)
	go func() {
		_, span := tracer.Start(context.Background(), "s")
		ended := make(chan bool)
		go func() {
			before := getLabels()
			pprof.SetGoroutineLabels(context.Background())
			mine := getLabels()
			span.End()
			if getLabels() != mine {
				t.Error("the end of a span of another goroutine has changed this one's labels")
			}
			setLabels(context.Background(), before)
			ended <- true
		}()
		<-ended
		until(t, p, k, func() { inSpan(bit) }, func(list []decoded) bool { return spansOf(list, "inSpan")[id(span)] > 0 })
		until(t, p, k, func() { afterSpan(bit) }, func(list []decoded) bool { return spansOf(list, "afterSpan")[""] > 0 })
		if n := spansOf(k.all(), "afterSpan")[id(span)]; n != 0 {
			t.Errorf("%d ns of an ended span", n)
		}
		done <- true
	}()
	<-done
	if activeSpans.get(trace.SpanID{}) != nil {
		t.Error("a span without an id")
	}
}
