// SPDX-License-Identifier: Apache-2.0

package profiling

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"wick.dev/go/internal/pprofile"
)

// waitsOf returns the sum of one type of the profile that has the name, of stacks with the function.
func waitsOf(list []decoded, profile, kind, function string) (n int64) {
	for _, r := range list {
		for _, s := range r.samples {
			if s.profile == profile && s.kind == kind && strings.Contains(s.stack, function) {
				n += s.value
			}
		}
	}
	return n
}

// A lock that is held, and a channel that no goroutine writes to: each is in the profile that says what it is, for as long as it was.
func TestWaits(t *testing.T) {
	k := &keeper{}
	p := NewProvider(WithExporter(k), WithMutexProfileFraction(1), WithBlockProfileRate(1), WithExportInterval(time.Hour))
	defer p.Shutdown(context.Background())
	if err := p.ForceFlush(context.Background()); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var waited atomic.Int64
	var group sync.WaitGroup
	idle, ended := make(chan bool), make(chan bool)
	go func() { <-idle; close(ended) }()
	for i := 0; i < 3; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for n := 0; n < 20; n++ {
				begin := time.Now()
				mu.Lock()
				waited.Add(int64(time.Since(begin)))
				time.Sleep(2 * time.Millisecond)
				mu.Unlock()
			}
		}()
	}
	group.Wait()
	time.Sleep(200 * time.Millisecond)
	close(idle)
	<-ended
	if err := p.ForceFlush(context.Background()); err != nil {
		t.Fatal(err)
	}
	own, list := float64(waited.Load()), k.all()
	locked, blocked := waitsOf(list, "mutex", "delay", "TestWaits"), waitsOf(list, "block", "delay", "TestWaits")
	if x := float64(locked) / own; x < 0.9 || x > 1.1 {
		t.Errorf("the mutex profile has %v of waits for a lock, and there were %v", time.Duration(locked), time.Duration(own))
	}
	if x := float64(waitsOf(list, "block", "delay", "(*Mutex).Lock")) / own; x < 0.9 || x > 1.1 {
		t.Errorf("the block profile has %.2f of the waits for a lock", x)
	}
	if blocked < locked+int64(200*time.Millisecond) {
		t.Errorf("the block profile has %v, the locks alone are %v", time.Duration(blocked), time.Duration(locked))
	}
	if n := sum(list, "delay", "profiling.(*"); n != 0 {
		t.Errorf("waits of the profiler: %v", time.Duration(n))
	}
	for _, r := range list {
		for _, s := range r.samples {
			if (s.kind == "delay" || s.kind == "contentions") != (s.profile != "") {
				t.Errorf("%s of profile %q", s.kind, s.profile)
			}
		}
	}
}

// A request for a CPU profile waits for its seconds: that is not in what it serves later.
func TestHandlerLeavesOutItsOwnWaits(t *testing.T) {
	useBlockRate(1)
	defer leaveBlockRate()
	s := httptest.NewServer(Handler())
	defer s.Close()
	get := func(path string) *pprofile.Profile {
		a, err := http.Get(s.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		body, _ := io.ReadAll(a.Body)
		p, err := pprofile.Decode(body)
		if err != nil {
			t.Fatal(path, err)
		}
		return p
	}
	get("/debug/pprof/profile?seconds=0.2")
	for _, name := range []string{"/debug/pprof/block", "/debug/pprof/block?seconds=0.1"} {
		p := get(name)
		p.KeepSamples(func(stack []string) bool {
			if text := strings.Join(stack, ";"); strings.Contains(text, "profiling.serve") {
				t.Errorf("%s: %s", name, text)
			}
			return true
		})
	}
}

func TestWhoseWaits(t *testing.T) {
	for stack, want := range map[string]bool{
		"runtime.selectgo;main.work;main.main;runtime.main":                                           true,
		"sync.(*Mutex).Unlock;main.f;runtime/pprof.Do;main.main":                                      true,
		"sync.(*Mutex).Unlock;main.f;wick.dev/go/profiling.Do;main.main":                              true,
		"runtime.unlock;runtime.mallocgc;runtime.newobject":                                           true,
		"runtime._LostContendedRuntimeLock":                                                           true,
		"runtime.chanrecv1;runtime.unique_runtime_registerUniqueMapCleanup.func2":                     false,
		"runtime.selectgo;wick.dev/go/profiling.(*Provider).collect":                                  false,
		"sync.(*Cond).Wait;wick.dev/go/profiling.(*queue).get;wick.dev/go/profiling.(*Provider).send": false,
		"runtime.selectgo;net/http/pprof.sleep;net/http/pprof.Profile;net/http.(*conn).serve":         false,
		"runtime.selectgo;net/http.(*persistConn).writeLoop":                                          false,
		"runtime.selectgo;net/http.(*persistConn).roundTrip;main.main":                                true,
	} {
		if isOfProgram(strings.Split(stack, ";")) != want {
			t.Errorf("%s: %v", stack, !want)
		}
	}
}
