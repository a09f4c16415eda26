// SPDX-License-Identifier: Apache-2.0

package profiling

import (
	"bytes"
	"fmt"
	"runtime"
	"runtime/pprof"
	"sync"
	"time"

	"wick.dev/go/internal/pprofile"
)

// snapshot reads one of Go's profiles that are kept by the runtime: heap, mutex, block, goroutine.
type snapshot struct {
	name  string
	delta pprofile.Delta
}

// take returns what happened since the last call; for live memory and goroutines, what there is.
func (s *snapshot) take() (*pprofile.Profile, error) {
	p, err := readProfile(s.name)
	if err != nil {
		return nil, err
	}
	if s.name != "goroutine" {
		s.delta.Apply(p)
	}
	return p, nil
}

func readProfile(name string) (*pprofile.Profile, error) {
	var b bytes.Buffer
	source := pprof.Lookup(name)
	if source == nil {
		return nil, fmt.Errorf("Go has no profile %q", name)
	}
	now := time.Now().UnixNano()
	if err := source.WriteTo(&b, 0); err != nil {
		return nil, err
	}
	p, err := pprofile.Decode(b.Bytes())
	if err != nil {
		return nil, err
	}
	if p.Time == 0 {
		p.Time = now
	}
	if isOfWaits(name) {
		p.Name = name
		p.KeepSamples(isOfProgram)
	}
	return p, nil
}

// Rates of the runtime are global. The first Provider that needs one sets it, the last one sets it back.
var rates struct {
	sync.Mutex
	mutexUsers, blockUsers int
	mutexBefore            int
}

func useMutexRate(fraction int) {
	rates.Lock()
	defer rates.Unlock()
	if rates.mutexUsers++; rates.mutexUsers > 1 && fraction == 0 {
		return
	}
	current := runtime.SetMutexProfileFraction(-1)
	if rates.mutexUsers == 1 {
		rates.mutexBefore = current
	}
	if fraction == 0 && current == 0 {
		fraction = DefaultMutexFraction
	}
	if fraction > 0 {
		runtime.SetMutexProfileFraction(fraction)
	}
}

func leaveMutexRate() {
	rates.Lock()
	defer rates.Unlock()
	if rates.mutexUsers--; rates.mutexUsers == 0 {
		runtime.SetMutexProfileFraction(rates.mutexBefore)
	}
}

func useBlockRate(d time.Duration) {
	rates.Lock()
	defer rates.Unlock()
	rates.blockUsers++
	runtime.SetBlockProfileRate(int(d))
}

func leaveBlockRate() {
	rates.Lock()
	defer rates.Unlock()
	if rates.blockUsers--; rates.blockUsers == 0 {
		runtime.SetBlockProfileRate(0)
	}
}
