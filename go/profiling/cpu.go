// SPDX-License-Identifier: Apache-2.0

package profiling

import (
	"bytes"
	"errors"
	"fmt"
	"runtime/pprof"
	"sync"

	"wick.dev/go/internal/pprofile"
)

// Go has one CPU profile per process, which is written when it is stopped. cpuStream keeps one running and cuts it into
// segments; every reader gets all segments that began after it was added: Providers, and requests to Handler. Between two
// segments nothing is sampled for as long as Go needs to end one (below 1 ms; with Go 1.24 and earlier up to 100 ms).
type cpuStream struct {
	mu      sync.Mutex
	readers map[*cpuReader]struct{}
	buf     *bytes.Buffer // of the running segment; nil: none is running
	refused bool          // another rate than Go's cannot be had
}

type cpuReader struct {
	rate     int // 0: any
	segments []*pprofile.Profile
	err      error
}

var cpu = cpuStream{readers: map[*cpuReader]struct{}{}}

// maxSegments bounds what a reader collects: older ones are merged.
const maxSegments = 64

// add begins a new segment and returns a reader of it and all that follow. If the profile cannot be started, because the program
// itself profiles, the error is returned with a reader: cut tries again.
func (s *cpuStream) add(rate int) (*cpuReader, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &cpuReader{rate: rate}
	if len(s.readers) > 0 {
		s.cutLocked()
	}
	s.readers[r] = struct{}{}
	return r, s.startLocked()
}

// take ends the running segment, begins the next, and returns the sum of the segments since the last call; nil: there is none.
func (s *cpuStream) take(r *cpuReader) (*pprofile.Profile, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cutLocked()
	p, err := pprofile.Merge(r.segments), r.err
	r.segments, r.err = nil, nil
	return p, err
}

// remove ends the reader, and the profile if it was the last one.
func (s *cpuStream) remove(r *cpuReader) (*pprofile.Profile, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.readers) == 1 {
		s.stopLocked()
	} else {
		s.cutLocked()
	}
	delete(s.readers, r)
	return pprofile.Merge(r.segments), r.err
}

// isRunning reports whether samples are taken; if not, it tries to begin.
func (s *cpuStream) isRunning() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.startLocked() == nil
}

func (s *cpuStream) startLocked() error {
	if s.buf != nil {
		return nil
	}
	rate := 0
	for r := range s.readers { // two Providers with different rates: the higher one
		if r.rate > rate {
			rate = r.rate
		}
	}
	if rate == 0 { // a reader that takes what there is, alone
		rate = DefaultSampleRate
	}
	buf := &bytes.Buffer{}
	err := s.startAt(buf, rate)
	if err != nil {
		return fmt.Errorf("CPU time is not sampled: %w (the program itself has called pprof.StartCPUProfile, or net/http/pprof "+
			"has; use profiling.Handler for it)", err)
	}
	s.buf = buf
	return nil
}

func (s *cpuStream) cutLocked() {
	done := s.endLocked()
	err := s.startLocked() // first, so that the gap is short
	s.hand(done, err)
}

func (s *cpuStream) stopLocked() { s.hand(s.endLocked(), nil) }

func (s *cpuStream) endLocked() *bytes.Buffer {
	if s.buf == nil {
		return nil
	}
	pprof.StopCPUProfile()
	done := s.buf
	s.buf = nil
	return done
}

func (s *cpuStream) hand(done *bytes.Buffer, err error) {
	if done != nil && done.Len() > 0 {
		p, bad := pprofile.Decode(done.Bytes())
		if bad != nil {
			err = fmt.Errorf("Go's CPU profile cannot be read: %w", bad)
		} else {
			for r := range s.readers {
				r.put(p)
			}
		}
	}
	for r := range s.readers {
		if err != nil {
			r.err = err
		}
	}
}

func (r *cpuReader) put(p *pprofile.Profile) {
	if len(r.segments) >= maxSegments {
		r.segments = []*pprofile.Profile{pprofile.Merge(r.segments)}
	}
	r.segments = append(r.segments, p)
}

var errRate = errors.New("the rate cannot be changed here")

func (s *cpuStream) startAt(w *bytes.Buffer, rate int) error {
	if rate != DefaultSampleRate && !s.refused {
		err := startAtRate(w, rate)
		if !errors.Is(err, errRate) {
			return err
		}
		s.refused = true
	}
	return pprof.StartCPUProfile(w)
}
