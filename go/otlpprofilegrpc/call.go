// SPDX-License-Identifier: Apache-2.0

package otlpprofilegrpc

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"wick.dev/go/internal/otlp"
	"wick.dev/go/internal/otlpclient"
)

// Status codes of gRPC that matter here.
const (
	codeOK                = 0
	codeCanceled          = 1
	codeUnknown           = 2
	codeDeadlineExceeded  = 4
	codeResourceExhausted = 8
	codeAborted           = 10
	codeOutOfRange        = 11
	codeUnavailable       = 14
	codeDataLoss          = 15
)

var codeNames = [...]string{"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
	"PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL",
	"UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED"}

// frame returns the message with gRPC's prefix: whether it is compressed, and its length.
func frame(message []byte, compress bool) []byte {
	if compress {
		message = otlpclient.Gzip(message)
	}
	b := make([]byte, 5, 5+len(message))
	if compress {
		b[0] = 1
	}
	binary.BigEndian.PutUint32(b[1:], uint32(len(message)))
	return append(b, message...)
}

func unframe(b []byte, encoding string) ([]byte, error) {
	if len(b) < 5 || uint64(binary.BigEndian.Uint32(b[1:])) != uint64(len(b)-5) {
		return nil, errors.New("the answer is not one gRPC message")
	}
	if b[0] == 0 {
		return b[5:], nil
	}
	if encoding != "gzip" {
		return nil, fmt.Errorf("the answer is compressed with %q", encoding)
	}
	z, err := gzip.NewReader(bytes.NewReader(b[5:]))
	if err != nil {
		return nil, err
	}
	return otlpclient.ReadAnswer(z)
}

func (e *Exporter) request(ctx context.Context, body []byte) (*http.Request, error) {
	c := &e.client.Config
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL(), bytes.NewReader(frame(body, c.Gzip)))
	if err != nil {
		return nil, err
	}
	q.Header.Set("user-agent", otlpclient.UserAgent)
	for k, v := range c.Headers {
		q.Header.Set(k, v)
	}
	q.Header.Set("content-type", "application/grpc")
	q.Header.Set("te", "trailers")
	q.Header.Set("grpc-accept-encoding", "gzip")
	if c.Gzip {
		q.Header.Set("grpc-encoding", "gzip")
	}
	if end, ok := ctx.Deadline(); ok {
		q.Header.Set("grpc-timeout", strconv.FormatInt(int64(time.Until(end)/time.Millisecond)+1, 10)+"m")
	}
	return q, nil
}

func (e *Exporter) try(ctx context.Context, body []byte) (otlp.Response, error) {
	q, err := e.request(ctx, body)
	if err != nil {
		return otlp.Response{}, err
	}
	a, err := e.http.Do(q)
	if err != nil {
		return otlp.Response{}, &otlpclient.TryError{Err: fmt.Errorf("cannot export profiles: %w", err), Retry: true}
	}
	defer a.Body.Close()
	answer, err := otlpclient.ReadAnswer(a.Body)
	if err == nil {
		_, err = io.Copy(io.Discard, a.Body) // the trailers follow the end
	}
	if err != nil {
		return otlp.Response{}, &otlpclient.TryError{Err: fmt.Errorf("cannot export profiles to %s: %w", e.client.Config.Endpoint, err),
			Retry: true}
	}
	if err := status(a, e.client.Config.Endpoint); err != nil {
		return otlp.Response{}, err
	}
	message, err := unframe(answer, a.Header.Get("grpc-encoding"))
	if err != nil {
		return otlp.Response{}, nil // the server took it: only what it said is lost
	}
	r, _ := otlp.DecodeResponse(message)
	return r, nil
}

// status returns nil if the call succeeded.
func status(a *http.Response, endpoint string) error {
	h := a.Trailer
	if h.Get("grpc-status") == "" {
		h = a.Header // an answer without a message has its status in the headers
	}
	code, err := strconv.Atoi(h.Get("grpc-status"))
	if err != nil {
		code = codeOfHTTP(a.StatusCode)
	}
	if code == codeOK {
		return nil
	}
	text, err := url.PathUnescape(h.Get("grpc-message"))
	if err != nil {
		text = h.Get("grpc-message")
	}
	name := strconv.Itoa(code)
	if code > 0 && code < len(codeNames) {
		name = codeNames[code]
	}
	if a.StatusCode != http.StatusOK {
		text = strings.TrimSpace("HTTP " + a.Status + " " + text)
	}
	e := &otlpclient.TryError{Err: fmt.Errorf("cannot export profiles to %s: %s: %s", endpoint, name, text)}
	var details otlp.Status
	if raw, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(h.Get("grpc-status-details-bin"), "=")); err == nil {
		details = otlp.DecodeStatus(raw)
	}
	e.After = details.RetryAfter
	switch code {
	case codeCanceled, codeDeadlineExceeded, codeAborted, codeOutOfRange, codeUnavailable, codeDataLoss:
		e.Retry = true
	case codeResourceExhausted:
		e.Retry = details.HasRetry
	}
	return e
}

// codeOfHTTP is gRPC's table for answers that are not gRPC.
func codeOfHTTP(status int) int {
	switch status {
	case http.StatusBadRequest:
		return 13
	case http.StatusUnauthorized:
		return 16
	case http.StatusForbidden:
		return 7
	case http.StatusNotFound:
		return 12
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return codeUnavailable
	}
	return codeUnknown
}
