// SPDX-License-Identifier: Apache-2.0

// Command chi is a service with chi, SQLite and OpenTelemetry: the module profiles it, its /debug/pprof/ is scraped, the agent sees it.
// A request answers with its own account of what it did, in ns.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"log"
	"math/rand/v2"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/go-chi/chi/v5"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"golang.org/x/sys/unix"
	_ "modernc.org/sqlite"
	"wick.dev/go/otlpprofilegrpc"
	"wick.dev/go/profiling"
)

var (
	mu       sync.Mutex
	released time.Time
	sink     float64
)

//go:noinline
func price(n int) {
	for i := 0; i < n; i++ {
		sink += float64(i) / 3
	}
}

//go:noinline
func tax(n int) {
	for i := 0; i < n; i++ {
		sink += float64(i) / 7
	}
}

//go:noinline
func render(n int) {
	for i := 0; i < n; i++ {
		sink += float64(i) / 11
	}
}

// cpu is what a function used; a goroutine stays on its thread meanwhile.
func cpu(f func(int), n int) int64 {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var a, b unix.Timespec
	unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &a)
	f(n)
	unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &b)
	return b.Nano() - a.Nano()
}

// guarded is how long it took to get the lock from when it was found taken, and until when it was held by another; then this goroutine
// waits for a thread.
func guarded() (waited, least int64) {
	if !mu.TryLock() {
		begin := time.Now()
		mu.Lock()
		waited, least = int64(time.Since(begin)), max(int64(released.Sub(begin)), 0)
	}
	time.Sleep(2 * time.Millisecond)
	released = time.Now()
	mu.Unlock()
	return waited, least
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	spans, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(os.Getenv("STACK_HTTP")+"/v1/traces"))
	must(err)
	traces := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(profiling.SpanProcessor()), sdktrace.WithBatcher(spans))
	otel.SetTracerProvider(traces)
	exporter, err := otlpprofilegrpc.New(ctx, otlpprofilegrpc.WithEndpointURL(os.Getenv("STACK_GRPC")), otlpprofilegrpc.WithInsecure())
	must(err)
	provider := profiling.NewProvider(profiling.WithExporter(exporter), profiling.WithCPUProfiling(true), profiling.WithMemoryProfiling(true),
		profiling.WithMutexProfiling(true), profiling.WithBlockProfiling(true))
	db, err := sql.Open("sqlite", ":memory:")
	must(err)
	db.SetMaxOpenConns(1)
	_, err = db.Exec("CREATE TABLE orders (id INTEGER PRIMARY KEY, total REAL)")
	must(err)

	r := chi.NewRouter()
	r.Handle("/debug/pprof/*", profiling.Handler())
	r.Get("/order", func(w http.ResponseWriter, q *http.Request) {
		_, span := otel.Tracer("stack").Start(q.Context(), "order")
		defer span.End()
		_, err := db.Exec("INSERT INTO orders (total) VALUES (?)", sink)
		must(err)
		size := 150_000 * (10 + rand.IntN(20)) / 10 // no clock is in step with it
		waited, least := guarded()
		json.NewEncoder(w).Encode(map[string]int64{"price": cpu(price, 6*size), "tax": cpu(tax, 3*size), "render": cpu(render, size),
			"waited": waited, "waited_least": least, "pid": int64(os.Getpid())})
	})
	s := &http.Server{Addr: "127.0.0.1:" + strconv.Itoa(port()), Handler: r}
	go func() {
		<-ctx.Done()
		s.Shutdown(context.Background())
	}()
	s.ListenAndServe()
	traces.Shutdown(context.Background())
	provider.Shutdown(context.Background())
}

func port() int {
	n, err := strconv.Atoi(os.Args[1])
	must(err)
	return n
}
