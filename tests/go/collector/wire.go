// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc/stats"
)

var wireBytes atomic.Int64

// wire counts the bytes of messages as they came, compressed if they were.
type wire struct{}

func (*wire) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (*wire) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (*wire) HandleConn(context.Context, stats.ConnStats)                       {}
func (*wire) HandleRPC(_ context.Context, s stats.RPCStats) {
	if in, ok := s.(*stats.InPayload); ok {
		wireBytes.Add(int64(in.CompressedLength))
	}
}
