// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"sort"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

const method = "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export"

// raw passes bytes through as they are, so that neither side of a measurement decodes anything here.
type raw struct{ b []byte }

type rawCodec struct{}

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.(*raw).b)}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	v.(*raw).b = data.Materialize()
	return nil
}

func (rawCodec) Name() string { return "proto" }

func dial(addr string) (*grpc.ClientConn, error) {
	return grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{}), grpc.MaxCallRecvMsgSize(64<<20)),
		grpc.WithInitialWindowSize(4<<20), grpc.WithInitialConnWindowSize(8<<20))
}

// load keeps conns x inflight requests under way for a duration, or until n were answered; prints one line of numbers.
func load(args []string) error {
	f := flag.NewFlagSet("load", flag.ExitOnError)
	conns := f.Int("conns", 4, "connections")
	inflight := f.Int("inflight", 4, "requests under way on each")
	duration := f.Duration("duration", 5*time.Second, "how long")
	total := f.Int64("n", 0, "stop after this many requests instead")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() < 2 {
		return fmt.Errorf("load: host:port and a file are needed")
	}
	var bodies [][]byte
	for _, name := range f.Args()[1:] {
		body, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		bodies = append(bodies, body)
	}
	ctx := context.Background()
	end := time.Now().Add(*duration) // requests under way then are still waited for, so that every one counts
	more := func() bool { return *total > 0 || time.Now().Before(end) }
	var sent, failed, turn atomic.Int64
	var firstError atomic.Value
	var wg sync.WaitGroup
	var mu sync.Mutex
	var latencies []float64
	start := time.Now()
	for c := 0; c < *conns; c++ {
		conn, err := dial(f.Arg(0))
		if err != nil {
			return err
		}
		defer conn.Close()
		for i := 0; i < *inflight; i++ {
			wg.Add(1)
			go func() {
				defer wg.Done()
				var mine []float64
				for more() {
					k := turn.Add(1)
					if *total > 0 && k > *total {
						break
					}
					var out raw
					t := time.Now()
					err := conn.Invoke(ctx, method, &raw{bodies[int(k)%len(bodies)]}, &out)
					switch {
					case err == nil:
						sent.Add(1)
						mine = append(mine, time.Since(t).Seconds()*1e3)
					default:
						failed.Add(1)
						firstError.CompareAndSwap(nil, status.Convert(err).String())
						time.Sleep(time.Millisecond)
					}
				}
				mu.Lock()
				latencies = append(latencies, mine...)
				mu.Unlock()
			}()
		}
	}
	wg.Wait()
	seconds := time.Since(start).Seconds()
	sort.Float64s(latencies)
	at := func(q float64) float64 {
		if len(latencies) == 0 {
			return 0
		}
		return latencies[int(q*float64(len(latencies)-1))]
	}
	fmt.Printf("requests=%d failed=%d seconds=%.3f p50_ms=%.2f p99_ms=%.2f\n", sent.Load(), failed.Load(), seconds, at(.5), at(.99))
	if e := firstError.Load(); e != nil {
		fmt.Fprintln(os.Stderr, "load: first error:", e)
	}
	return nil
}

// sink answers success to everything and prints what came when it is told to end.
func sink(args []string) error {
	f := flag.NewFlagSet("sink", flag.ExitOnError)
	if err := f.Parse(args); err != nil {
		return err
	}
	l, err := net.Listen("tcp", f.Arg(0))
	if err != nil {
		return err
	}
	var requests, bytes atomic.Int64
	handler := func(_ any, stream grpc.ServerStream) error {
		var in raw
		if err := stream.RecvMsg(&in); err != nil {
			return err
		}
		requests.Add(1)
		bytes.Add(int64(len(in.b)))
		return stream.SendMsg(&raw{})
	}
	s := grpc.NewServer(grpc.UnknownServiceHandler(handler), grpc.ForceServerCodecV2(rawCodec{}),
		grpc.MaxRecvMsgSize(64<<20), grpc.InitialWindowSize(4<<20), grpc.InitialConnWindowSize(8<<20),
		grpc.StatsHandler(&wire{}))
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-stop
		s.Stop()
	}()
	fmt.Println("listening", l.Addr())
	if err := s.Serve(l); err != nil && err != grpc.ErrServerStopped {
		return err
	}
	fmt.Printf("requests=%d bytes=%d wire_bytes=%d\n", requests.Load(), bytes.Load(), wireBytes.Load())
	return nil
}

func send(args []string) error {
	if len(args) < 2 {
		return fmt.Errorf("send: host:port and a file are needed")
	}
	body, err := os.ReadFile(args[1])
	if err != nil {
		return err
	}
	conn, err := dial(args[0])
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var out raw
	if err := conn.Invoke(ctx, method, &raw{body}, &out); err != nil {
		return err
	}
	fmt.Printf("ok %x\n", out.b)
	return nil
}
