// SPDX-License-Identifier: Apache-2.0

package profiling

import (
	"context"
	"sync"
)

// Limits of the queue between collecting and sending.
const (
	queueRequests = 30
	queueBytes    = 32 << 20
)

type queued struct {
	request []byte
	samples int
}

// queue holds requests that wait to be sent. When it is full, the oldest is dropped: recent profiles are worth more.
type queue struct {
	mu      sync.Mutex
	changed chan struct{} // closed and replaced on every change
	list    []queued
	bytes   int
	lost    int // samples that were dropped
	busy    bool
	closed  bool
}

func newQueue() *queue { return &queue{changed: make(chan struct{})} }

func (q *queue) signal() {
	close(q.changed)
	q.changed = make(chan struct{})
}

func (q *queue) put(x queued) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		q.lost += x.samples
		return
	}
	q.list = append(q.list, x)
	q.bytes += len(x.request)
	for len(q.list) > queueRequests || q.bytes > queueBytes && len(q.list) > 1 {
		q.lost += q.list[0].samples
		q.bytes -= len(q.list[0].request)
		q.list = q.list[1:]
	}
	q.signal()
}

// get waits for a request; false: the queue was closed and is empty. The request counts as under way until done is called.
func (q *queue) get() (queued, bool) {
	q.mu.Lock()
	for len(q.list) == 0 {
		if q.closed {
			q.mu.Unlock()
			return queued{}, false
		}
		wait := q.changed
		q.mu.Unlock()
		<-wait
		q.mu.Lock()
	}
	x := q.list[0]
	q.list = q.list[1:]
	q.bytes -= len(x.request)
	q.busy = true
	q.mu.Unlock()
	return x, true
}

func (q *queue) done(lost int) {
	q.mu.Lock()
	q.busy = false
	q.lost += lost
	q.signal()
	q.mu.Unlock()
}

func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.signal()
	q.mu.Unlock()
}

// flush waits until nothing waits and nothing is under way.
func (q *queue) flush(ctx context.Context) error {
	q.mu.Lock()
	for len(q.list) > 0 || q.busy {
		wait := q.changed
		q.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return ctx.Err()
		}
		q.mu.Lock()
	}
	q.mu.Unlock()
	return nil
}

func (q *queue) lostSamples() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lost
}
