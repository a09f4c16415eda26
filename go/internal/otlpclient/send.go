// SPDX-License-Identifier: Apache-2.0

package otlpclient

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"math/rand"
	"sync"
	"time"

	"go.opentelemetry.io/otel"

	"wick.dev/go/internal/otlp"
)

// MaxAnswer bounds what is read of an answer.
const MaxAnswer = 1 << 20

// TryError is the failure of one try.
type TryError struct {
	Err   error
	Retry bool          // it may pass
	After time.Duration // what the server asked to wait; 0: nothing
}

func (e *TryError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *TryError) Unwrap() error { return e.Err }

// ErrShutdown is returned after Shutdown.
var ErrShutdown = errors.New("the exporter was shut down")

// Client sends requests, one try after the other.
type Client struct {
	Config Config
	// Try sends the body once. A failure is a *TryError.
	Try  func(ctx context.Context, body []byte) (otlp.Response, error)
	Stop func()

	once sync.Once
	done chan struct{}
	init sync.Once
}

func (c *Client) ended() chan struct{} {
	c.init.Do(func() { c.done = make(chan struct{}) })
	return c.done
}

// ExportProfiles sends an encoded ExportProfilesServiceRequest and repeats it while that may help.
func (c *Client) ExportProfiles(ctx context.Context, request []byte) error {
	r, began := c.Config.Retry, time.Now()
	wait := r.InitialInterval
	for {
		err := c.try(ctx, request)
		var failed *TryError
		if err == nil || !errors.As(err, &failed) || !failed.Retry || !r.Enabled {
			return err
		}
		pause := wait/2 + time.Duration(rand.Int63n(int64(wait)+1)) // half to one and a half of it
		if failed.After > pause {
			pause = failed.After
		}
		if r.MaxElapsedTime > 0 && time.Since(began)+pause > r.MaxElapsedTime {
			return err
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return err
		case <-c.ended():
			t.Stop()
			return err
		}
		if wait *= 2; wait > r.MaxInterval {
			wait = r.MaxInterval
		}
	}
}

func (c *Client) try(ctx context.Context, request []byte) error {
	select {
	case <-c.ended():
		return ErrShutdown
	default:
	}
	if c.Config.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.Config.Timeout)
		defer cancel()
	}
	answer, err := c.Try(ctx, request)
	if err == nil && (answer.Rejected != 0 || answer.Message != "") {
		otel.Handle(answer) // the server took the rest: sending again would double it
	}
	return err
}

// Shutdown ends retries and closes connections.
func (c *Client) Shutdown(context.Context) error {
	c.once.Do(func() {
		close(c.ended())
		c.Stop()
	})
	return nil
}

// Gzip compresses b.
func Gzip(b []byte) []byte {
	var out bytes.Buffer
	z, _ := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	z.Write(b)
	z.Close()
	return out.Bytes()
}

// ReadAnswer reads the body of an answer, decompressed if gzipped is set.
func ReadAnswer(r io.Reader) ([]byte, error) {
	return io.ReadAll(io.LimitReader(r, MaxAnswer))
}
