// SPDX-License-Identifier: Apache-2.0

package profiling

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"wick.dev/go/internal/pprofile"
)

// keeper is an exporter that keeps what it gets.
type keeper struct {
	mu       sync.Mutex
	requests []decoded
	fail     error
	hang     chan struct{}
	shut     int
}

func (k *keeper) ExportProfiles(ctx context.Context, request []byte) error {
	if k.hang != nil {
		select {
		case <-k.hang:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.requests = append(k.requests, decode(request))
	return k.fail
}

func (k *keeper) Shutdown(context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.shut++
	return nil
}

func (k *keeper) all() []decoded {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]decoded(nil), k.requests...)
}

//go:noinline
func burn(d time.Duration) (n int) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		for i := 0; i < 10000; i++ {
			n += i * i
		}
	}
	return n
}

var kept [][]byte

//go:noinline
func allocate() {
	for i := 0; i < 64; i++ {
		kept = append(kept, make([]byte, 1<<20))
	}
}

// until calls step and flushes until what it exports satisfies is.
func until(t *testing.T, p *Provider, k *keeper, step func(), is func([]decoded) bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		step()
		if err := p.ForceFlush(context.Background()); err != nil {
			t.Fatal(err)
		}
		if is(k.all()) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("not within a minute: %+v", k.all())
		}
	}
}

func sum(list []decoded, kind, function string) (n int64) {
	for _, r := range list {
		for _, s := range r.samples {
			if s.kind == kind && strings.Contains(s.stack, function) {
				n += s.value
			}
		}
	}
	return n
}

func TestTypes(t *testing.T) {
	k := &keeper{}
	p := NewProvider(WithExporter(k), WithMutexProfileFraction(1), WithBlockProfileRate(1), WithGoroutineProfiling(true),
		WithExportInterval(time.Hour), WithServiceName("cart"), WithResourceAttributes(attribute.Int("n", 7)))
	if err := p.Start(); err != nil { // it runs already
		t.Fatal(err)
	}
	var mu sync.Mutex
	contend := func() {
		mu.Lock()
		c := make(chan bool)
		go func() { mu.Lock(); mu.Unlock(); c <- true }()
		burn(20 * time.Millisecond)
		mu.Unlock()
		<-c
	}
	allocate()
	kept = nil
	runtime.GC()
	runtime.GC() // the heap profile is that of the last cycle but one
	until(t, p, k, contend, func(list []decoded) bool {
		return sum(list, "cpu", "burn") > 0 && sum(list, "alloc_space", "allocate") > 0 && sum(list, "goroutine", "TestTypes") > 0 &&
			sum(list, "contentions", "TestTypes") > 0
	})
	if n := sum(k.all(), "alloc_space", "profiling.allocate"); n < 32<<20 || n > 128<<20 {
		t.Errorf("64 MiB were allocated, %d bytes are in the profiles", n)
	}
	r := k.all()[0]
	if r.resource["service.name"] != "cart" || r.resource["n"] != int64(7) || r.resource["process.pid"] != int64(os.Getpid()) {
		t.Errorf("%+v", r.resource)
	}
	if err := p.Shutdown(context.Background()); err != nil || k.shut != 1 {
		t.Fatal(err, k.shut)
	}
	if p.Shutdown(context.Background()) != nil || k.shut != 1 {
		t.Fatal("a second Shutdown does nothing")
	}
	if n := runtime.SetMutexProfileFraction(-1); n != 0 {
		t.Errorf("the mutex fraction is %d after Shutdown", n)
	}
	n := len(k.all())
	p.ForceFlush(context.Background())
	if len(k.all()) != n {
		t.Error("something was sent after Shutdown")
	}
}

func TestDeltasAddUp(t *testing.T) {
	k := &keeper{}
	allocate()   // before the Provider: not counted
	runtime.GC() // an allocation is in the heap profile after the next two cycles
	runtime.GC()
	p := NewProvider(WithExporter(k), WithCPUProfiling(false), WithExportInterval(time.Hour))
	defer p.Shutdown(context.Background())
	p.ForceFlush(context.Background())
	for i := 0; i < 3; i++ {
		allocate()
		kept = nil
		runtime.GC()
		runtime.GC()
		p.ForceFlush(context.Background())
	}
	// Allocations are sampled: of 192 MiB in blocks of 1 MiB, 512 KiB apart, 86 % of the blocks are seen, and scaled up.
	if n := sum(k.all(), "alloc_space", "profiling.allocate"); n < 128<<20 || n > 256<<20 {
		t.Errorf("192 MiB were allocated, %d bytes are in the profiles", n)
	}
}

func TestLimitsOfExport(t *testing.T) {
	k := &keeper{}
	p := NewProvider(WithExporter(k), WithCPUProfiling(false), WithMemoryProfiling(false), WithGoroutineProfiling(true),
		WithMaxStackDepth(1), WithMaxSamplesPerExport(2))
	p.ForceFlush(context.Background())
	p.Shutdown(context.Background())
	for _, s := range k.all()[0].samples {
		if n := strings.Count(s.stack, ";") + 1; n > 2 || n == 2 && !strings.Contains(s.stack, pprofile.Truncated) {
			t.Errorf("%+v", s)
		}
	}
	if n := len(k.all()[0].samples); n > 2 {
		t.Errorf("%d samples", n)
	}
}

func TestExporterThatHangsOrFails(t *testing.T) {
	k := &keeper{hang: make(chan struct{})}
	p := NewProvider(WithExporter(k), WithCPUProfiling(false), WithMemoryProfiling(false), WithGoroutineProfiling(true),
		WithExportInterval(10*time.Millisecond))
	for end := time.Now().Add(time.Minute); p.queue.lostSamples() == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the queue grows without an end")
		}
	}
	p.queue.mu.Lock()
	n := len(p.queue.list)
	p.queue.mu.Unlock()
	if n > queueRequests {
		t.Errorf("%d requests in the queue", n)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := p.ForceFlush(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if err := p.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}

	reported := make(chan error, 100)
	k = &keeper{fail: errors.New("refused")}
	p = NewProvider(WithExporter(k), WithCPUProfiling(false), WithErrorHandler(func(err error) { reported <- err }))
	p.ForceFlush(context.Background())
	if err := <-reported; err.Error() != "refused" {
		t.Error(err)
	}
	p.Shutdown(context.Background())
}

func TestHandlerBesideProvider(t *testing.T) {
	k := &keeper{}
	p := NewProvider(WithExporter(k), WithMemoryProfiling(false), WithExportInterval(time.Hour))
	defer p.Shutdown(context.Background())
	mux := http.NewServeMux()
	mux.Handle("/debug/pprof/", Handler())
	s := httptest.NewServer(mux)
	defer s.Close()
	stop := make(chan struct{})
	go func() {
		for {
			select {
			case <-stop:
				return
			default:
				burn(time.Millisecond)
			}
		}
	}()
	defer close(stop)
	get := func(path string) (*http.Response, []byte) {
		a, err := http.Get(s.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		b, _ := io.ReadAll(a.Body)
		return a, b
	}
	var seen int64
	for end := time.Now().Add(time.Minute); seen == 0 && time.Now().Before(end); {
		a, b := get("/debug/pprof/profile?seconds=0.3")
		got, err := pprofile.Decode(b)
		if a.StatusCode != 200 || err != nil || got.Period != 1e7 {
			t.Fatalf("%s: %v %s", a.Status, err, b)
		}
		seen = got.Total(1)
	}
	p.ForceFlush(context.Background())
	if sum(k.all(), "cpu", "burn") < seen {
		t.Error("what the request got is missing in the export")
	}
	for _, path := range []string{"heap", "allocs", "goroutine", "mutex", "block", "threadcreate", "heap?seconds=0.01", "heap?gc=1"} {
		a, b := get("/debug/pprof/" + path)
		if _, err := pprofile.Decode(b); err != nil || a.StatusCode != 200 {
			t.Error(path, a.Status, err)
		}
	}
	for path, want := range map[string]string{"": "goroutine?debug=1", "cmdline": os.Args[0], "goroutine?debug=2": "goroutine 1",
		"symbol": "num_symbols: 1", "trace?seconds=0.01": ""} {
		if a, b := get("/debug/pprof/" + path); a.StatusCode != 200 || !strings.Contains(string(b), want) {
			t.Error(path, a.Status)
		}
	}
	if a, _ := get("/debug/pprof/nonsense"); a.StatusCode != 404 {
		t.Error(a.Status)
	}
}

// TestRate runs itself in a process of its own, to see what is on stderr.
func TestRate(t *testing.T) {
	if os.Getenv("WICK_TEST_RATE") == "" {
		c := exec.Command(os.Args[0], "-test.run=^TestRate$")
		c.Env = append(os.Environ(), "WICK_TEST_RATE=250")
		var out, stderr strings.Builder
		c.Stdout, c.Stderr = &out, &stderr
		if err := c.Run(); err != nil || strings.TrimSpace(stderr.String()) != "still here" {
			t.Fatalf("%v\n%s\n%s", err, out.String(), stderr.String())
		}
		return
	}
	k := &keeper{}
	p := NewProvider(WithExporter(k), WithMemoryProfiling(false), WithSampleRate(250), WithExportInterval(20*time.Millisecond))
	until(t, p, k, func() { burn(50 * time.Millisecond) }, func(list []decoded) bool { return sum(list, "cpu", "burn") > 0 })
	p.Shutdown(context.Background())
	period := k.all()[0].period
	if period != 1e9/250 && !(cpu.refused && period == 1e7) {
		t.Errorf("the period is %d", period)
	}
	os.Stderr.WriteString("still here\n")
}
