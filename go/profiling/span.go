// SPDX-License-Identifier: Apache-2.0

package profiling

import (
	"context"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"wick.dev/go/internal/otlp"
)

// A sample is linked to a span by pprof labels of the goroutine that was running: trace_id and span_id. Goroutines inherit the
// labels of the one that starts them, so work that a span hands on is linked too. Labels stay until they are replaced: something
// has to take them off when the span ends, which is what Do and SpanProcessor are for.

// WithSpanContext links what this goroutine does from now on to the span of ctx, and returns a context that carries the labels,
// for pprof.Do and for goroutines that call pprof.SetGoroutineLabels. Without a span in ctx it does nothing.
//
// The link ends with the span if SpanProcessor is registered with the TracerProvider, else when the goroutine ends or is linked
// to another span. Do ends it by itself.
func WithSpanContext(ctx context.Context) context.Context {
	sc := trace.SpanContextFromContext(ctx)
	if !sc.IsValid() {
		return ctx
	}
	labelled := withLabels(ctx, sc)
	before := getLabels()
	pprof.SetGoroutineLabels(labelled)
	if s := activeSpans.get(sc.SpanID()); s != nil {
		s.add(getLabels(), before)
	}
	return labelled
}

// Do calls fn with this goroutine linked to the span of ctx, and takes the link off when fn returns or panics.
func Do(ctx context.Context, fn func(context.Context)) {
	sc := trace.SpanContextFromContext(ctx)
	if !sc.IsValid() {
		fn(ctx)
		return
	}
	before := getLabels()
	defer setLabels(ctx, before)
	labelled := withLabels(ctx, sc)
	pprof.SetGoroutineLabels(labelled)
	fn(labelled)
}

func withLabels(ctx context.Context, sc trace.SpanContext) context.Context {
	return pprof.WithLabels(ctx, pprof.Labels(otlp.TraceIDLabel, sc.TraceID().String(), otlp.SpanIDLabel, sc.SpanID().String()))
}

// SpanProcessor links every span of a TracerProvider to what its goroutine does, from its start to its end, without a call of
// WithSpanContext:
//
//	sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(profiling.SpanProcessor()), ...)
//
// When a span ends, the goroutine gets back the labels that it had before. That works on the goroutine that started the span or
// was linked to it. A span that is ended elsewhere, and goroutines that outlive their span, keep the labels; the Provider then
// leaves out the link with the second export after the end.
func SpanProcessor() sdktrace.SpanProcessor { return spanProcessor{} }

type spanProcessor struct{}

// linked is a pair of what a goroutine's labels are while it is linked, and what they were before.
type linked struct{ now, before unsafe.Pointer }

type activeSpan struct {
	mu    sync.Mutex
	links []linked
}

const maxLinksOfSpan = 1000

func (s *activeSpan) add(now, before unsafe.Pointer) {
	s.mu.Lock()
	if len(s.links) < maxLinksOfSpan {
		s.links = append(s.links, linked{now, before})
	}
	s.mu.Unlock()
}

// before returns the labels from before the span, if now are labels of it.
func (s *activeSpan) before(now unsafe.Pointer) (unsafe.Pointer, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := false
	for i := len(s.links) - 1; i >= 0; i-- { // the last first: a link may be inside another of the same span
		if s.links[i].now == now {
			now, found = s.links[i].before, true
		}
	}
	return now, found
}

// filtering is set as soon as a SpanProcessor has seen a span.
var filtering atomic.Bool

// activeSpans has the spans between their start and their end; it is empty without SpanProcessor.
var activeSpans spanTable

type spanTable struct {
	shards [64]struct {
		sync.Mutex
		spans map[trace.SpanID]*activeSpan
	}
}

func (t *spanTable) get(id trace.SpanID) *activeSpan {
	s := &t.shards[id[7]%64]
	s.Lock()
	defer s.Unlock()
	return s.spans[id]
}

func (t *spanTable) put(id trace.SpanID, a *activeSpan) {
	s := &t.shards[id[7]%64]
	s.Lock()
	defer s.Unlock()
	if s.spans == nil {
		s.spans = map[trace.SpanID]*activeSpan{}
	}
	s.spans[id] = a
}

func (t *spanTable) remove(id trace.SpanID) *activeSpan {
	s := &t.shards[id[7]%64]
	s.Lock()
	defer s.Unlock()
	a := s.spans[id]
	delete(s.spans, id)
	return a
}

func (spanProcessor) OnStart(parent context.Context, span sdktrace.ReadWriteSpan) {
	sc := span.SpanContext()
	if !sc.IsValid() {
		return
	}
	a := &activeSpan{}
	before := getLabels()
	pprof.SetGoroutineLabels(withLabels(parent, sc))
	a.add(getLabels(), before)
	activeSpans.put(sc.SpanID(), a)
	filtering.Store(true)
}

func (spanProcessor) OnEnd(span sdktrace.ReadOnlySpan) {
	a := activeSpans.remove(span.SpanContext().SpanID())
	if a == nil {
		return
	}
	if before, ok := a.before(getLabels()); ok {
		setLabels(context.Background(), before)
	}
}

func (spanProcessor) Shutdown(context.Context) error   { return nil }
func (spanProcessor) ForceFlush(context.Context) error { return nil }

// spanFilter finds links that have outlived their span. A profile has no times of samples, so what is known is: a span that was
// in a profile, and was not active at the end of it, is over; in later profiles its labels are left over.
type spanFilter struct {
	over map[[8]byte]time.Time
}

const (
	maxOver  = 1 << 16
	keepOver = 10 * time.Minute
)

// window returns the filter for the profiles of one export; nil without SpanProcessor.
func (f *spanFilter) window() func([8]byte) bool {
	if !filtering.Load() {
		return nil
	}
	if f.over == nil {
		f.over = map[[8]byte]time.Time{}
	}
	now := time.Now()
	for id, t := range f.over {
		if now.Sub(t) > keepOver || len(f.over) > maxOver {
			delete(f.over, id)
		}
	}
	return func(id [8]byte) bool {
		if activeSpans.get(trace.SpanID(id)) != nil {
			return false
		}
		since, over := f.over[id]
		if !over {
			f.over[id] = now
			return false
		}
		return !since.Equal(now) // equal: seen in another profile of this export
	}
}
