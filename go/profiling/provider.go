// SPDX-License-Identifier: Apache-2.0

package profiling

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/otel"

	"wick.dev/go/internal/otlp"
	"wick.dev/go/internal/otlpclient"
	"wick.dev/go/internal/pprofile"
)

// Provider profiles this program until Shutdown. Its methods may be called from any goroutine.
type Provider struct {
	config   config
	resource []otlp.KeyValue
	queue    *queue

	mu      sync.Mutex
	running bool
	stop    chan struct{}
	flushes chan chan struct{}
	ended   chan struct{} // the collecting goroutine
	sent    chan struct{} // the sending goroutine

	// Owned by the collecting goroutine.
	cpu       *cpuReader
	snapshots []*snapshot
	spans     spanFilter

	reporting sync.Mutex
	lastTold  time.Time
	cancel    context.CancelFunc
}

// NewProvider returns a Provider that is running. It never fails: what cannot be profiled is reported to the error handler.
func NewProvider(options ...Option) *Provider {
	p := &Provider{config: newConfig(options)}
	p.resource = resourceOf(&p.config)
	p.Start()
	return p
}

// Start begins to profile. NewProvider has called it already; a second call does nothing, one after Shutdown begins again if the
// exporter can be used again.
func (p *Provider) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running {
		return nil
	}
	p.running = true
	p.queue = newQueue()
	p.stop, p.ended, p.sent = make(chan struct{}), make(chan struct{}), make(chan struct{})
	p.flushes = make(chan chan struct{})
	p.snapshots = nil
	for _, x := range []struct {
		on   bool
		name string
	}{{p.config.memory, "heap"}, {p.config.mutex, "mutex"}, {p.config.block, "block"}, {p.config.goroutine, "goroutine"}} {
		if x.on {
			p.snapshots = append(p.snapshots, &snapshot{name: x.name})
		}
	}
	if p.config.mutex {
		useMutexRate(p.config.mutexFraction)
	}
	if p.config.block {
		useBlockRate(p.config.blockRate)
	}
	if p.config.cpu {
		var err error
		p.cpu, err = cpu.add(p.config.rate)
		p.report(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	go p.send(ctx)
	go p.collect()
	return nil
}

// ForceFlush collects what there is now and waits until it was sent, or ctx ends.
func (p *Provider) ForceFlush(ctx context.Context) error {
	p.mu.Lock()
	running, flushes, ended, q := p.running, p.flushes, p.ended, p.queue
	p.mu.Unlock()
	if !running {
		return nil
	}
	done := make(chan struct{})
	select {
	case flushes <- done:
	case <-ended:
		return q.flush(ctx)
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-done:
	case <-ctx.Done():
		return ctx.Err()
	}
	return q.flush(ctx)
}

// Shutdown stops profiling, sends what there is, and shuts the exporter down; at the latest when ctx ends. A second call does
// nothing.
func (p *Provider) Shutdown(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running {
		return nil
	}
	p.running = false
	close(p.stop)
	var err error
	select {
	case <-p.ended:
		err = p.queue.flush(ctx)
	case <-ctx.Done():
		err = ctx.Err()
	}
	p.queue.close()
	if p.config.exporter != nil {
		if e := p.config.exporter.Shutdown(ctx); err == nil {
			err = e
		}
	}
	p.cancel()
	return err
}

// report passes on an error, at most once a minute.
func (p *Provider) report(err error) {
	if err == nil {
		return
	}
	p.reporting.Lock()
	if p.config.onError == nil && !p.lastTold.IsZero() && time.Since(p.lastTold) < time.Minute {
		p.reporting.Unlock()
		return
	}
	p.lastTold = time.Now()
	p.reporting.Unlock()
	if p.config.onError != nil {
		p.config.onError(err)
	} else {
		otel.Handle(err)
	}
}

func (p *Provider) send(ctx context.Context) {
	defer close(p.sent)
	for {
		x, ok := p.queue.get()
		if !ok {
			return
		}
		lost := 0
		if err := p.config.exporter.ExportProfiles(ctx, x.request); err != nil {
			lost = x.samples
			if !errors.Is(err, otlpclient.ErrShutdown) {
				p.report(err)
			}
		}
		p.queue.done(lost)
	}
}

func (p *Provider) collect() {
	defer close(p.ended)
	for _, s := range p.snapshots { // what happened before is not ours
		if s.name != "goroutine" {
			if _, err := s.take(); err != nil {
				p.report(err)
			}
		}
	}
	timer := time.NewTimer(p.config.interval)
	defer timer.Stop()
	next := time.Now().Add(p.config.interval)
	retry := time.NewTicker(time.Second)
	defer retry.Stop()
	for {
		select {
		case <-timer.C:
			p.export(false)
			next = next.Add(p.config.interval)
			if now := time.Now(); next.Before(now) {
				next = now
			}
			timer.Reset(time.Until(next))
		case done := <-p.flushes:
			p.export(false)
			close(done)
		case <-retry.C:
			if p.cpu != nil {
				cpu.isRunning()
			}
		case <-p.stop:
			p.export(true)
			if p.config.mutex {
				leaveMutexRate()
			}
			if p.config.block {
				leaveBlockRate()
			}
			return
		}
	}
}

// export collects and hands one request to the queue.
func (p *Provider) export(last bool) {
	request := otlp.NewRequest(p.resource, otlp.Options{DropSpan: p.spans.window()})
	if p.cpu != nil {
		take := cpu.take
		if last {
			take = cpu.remove
		}
		profile, err := take(p.cpu)
		p.report(err)
		p.add(request, profile)
	}
	for _, s := range p.snapshots {
		profile, err := s.take()
		p.report(err)
		p.add(request, profile)
	}
	if p.config.exporter != nil && request.Samples() > 0 {
		p.queue.put(queued{request.Bytes(), request.Samples()})
	}
}

func (p *Provider) add(request *otlp.Request, profile *pprofile.Profile) {
	if profile == nil || len(profile.Samples) == 0 || p.config.exporter == nil {
		return
	}
	profile.LimitDepth(p.config.depth)
	cut := profile.LimitSamples(p.config.samples)
	attributes := []otlp.KeyValue{{Key: "wick.lost", Value: int64(p.queue.lostSamples())}}
	if profile.PeriodType.Type == "cpu" && profile.Period > 0 {
		attributes = append(attributes, otlp.KeyValue{Key: "wick.rate", Value: int64(time.Second) / profile.Period})
	}
	if cut > 0 {
		attributes = append(attributes, otlp.KeyValue{Key: "wick.truncated", Value: int64(cut)})
	}
	request.Add(profile, otlp.Scope{Name: "wick.dev/go/profiling", Version: otlpclient.Version, Attributes: attributes})
}
