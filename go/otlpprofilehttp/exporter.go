// SPDX-License-Identifier: Apache-2.0

// Package otlpprofilehttp exports profiles by OTLP over HTTP, in protobuf: POST /v1development/profiles.
package otlpprofilehttp

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"wick.dev/go/internal/otlp"
	"wick.dev/go/internal/otlpclient"
)

// RetryConfig says how a request that failed for a reason that may pass is repeated.
type RetryConfig = otlpclient.RetryConfig

// Option configures an Exporter.
type Option = otlpclient.Option

// The options, which are those of both exporters under the names that OpenTelemetry gives them for HTTP.
var (
	// WithEndpoint sets host:port; the default is localhost:4318, or what OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT and
	// OTEL_EXPORTER_OTLP_ENDPOINT say.
	WithEndpoint = otlpclient.WithEndpoint
	// WithEndpointURL sets the whole URL, with its path; http is insecure, https is not.
	WithEndpointURL = otlpclient.WithEndpointURL
	// WithInsecure sends without TLS.
	WithInsecure = otlpclient.WithInsecure
	// WithTLSClientConfig sets the certificates to trust and to show.
	WithTLSClientConfig = otlpclient.WithTLS
	// WithHeaders adds headers to every request, as a token: {"authorization": "Bearer ..."}.
	WithHeaders = otlpclient.WithHeaders
	// WithCompression sets "gzip" or "none", the default.
	WithCompression = otlpclient.WithCompression
	// WithTimeout limits one try; the default is 10 s.
	WithTimeout = otlpclient.WithTimeout
	// WithRetry sets how often a request is repeated.
	WithRetry = otlpclient.WithRetry
)

// WithURLPath sets the path; the default is /v1development/profiles.
func WithURLPath(path string) Option {
	return func(c *otlpclient.Config) { c.Path = path }
}

// Exporter sends profiles over HTTP. It implements profiling.Exporter.
type Exporter struct {
	client otlpclient.Client
	http   *http.Client
}

// New returns an exporter. It does not connect: a server that is not there yet is tried again with each export.
func New(_ context.Context, options ...Option) (*Exporter, error) {
	c, err := otlpclient.With(otlpclient.Default(4318, "/v1development/profiles"), options)
	if err != nil {
		return nil, err
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = c.TLS
	t.DisableCompression = true
	e := &Exporter{http: &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // a token is not sent to another place
	}}}
	e.client = otlpclient.Client{Config: c, Try: e.try, Stop: t.CloseIdleConnections}
	return e, nil
}

// ExportProfiles sends an encoded ExportProfilesServiceRequest.
func (e *Exporter) ExportProfiles(ctx context.Context, request []byte) error {
	return e.client.ExportProfiles(ctx, request)
}

// Shutdown ends retries and closes connections.
func (e *Exporter) Shutdown(ctx context.Context) error { return e.client.Shutdown(ctx) }

func (e *Exporter) try(ctx context.Context, body []byte) (otlp.Response, error) {
	c := &e.client.Config
	if c.Gzip {
		body = otlpclient.Gzip(body)
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL(), bytes.NewReader(body))
	if err != nil {
		return otlp.Response{}, err
	}
	for k, v := range c.Headers {
		q.Header.Set(k, v)
	}
	q.Header.Set("content-type", "application/x-protobuf")
	if q.Header.Get("user-agent") == "" {
		q.Header.Set("user-agent", otlpclient.UserAgent)
	}
	if c.Gzip {
		q.Header.Set("content-encoding", "gzip")
	}
	a, err := e.http.Do(q)
	if err != nil {
		return otlp.Response{}, &otlpclient.TryError{Err: fmt.Errorf("cannot export profiles: %w", err), Retry: true}
	}
	defer a.Body.Close()
	answer, err := otlpclient.ReadAnswer(a.Body)
	if a.StatusCode/100 == 2 {
		r, bad := otlp.DecodeResponse(answer)
		if err != nil || bad != nil { // the server took it: only what it said is lost
			return otlp.Response{}, nil
		}
		return r, nil
	}
	return otlp.Response{}, refused(a, answer, c.URL())
}

func refused(a *http.Response, body []byte, url string) error {
	text := otlp.DecodeStatus(body).Message
	if text == "" && len(body) < 300 {
		text = string(bytes.TrimSpace(body))
	}
	e := &otlpclient.TryError{Err: fmt.Errorf("cannot export profiles to %s: HTTP %s: %s", url, a.Status, text)}
	switch a.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		e.Retry = true
	}
	after := a.Header.Get("retry-after")
	if n, err := strconv.Atoi(after); err == nil && n > 0 {
		e.After = time.Duration(n) * time.Second
	} else if t, err := http.ParseTime(after); err == nil {
		e.After = time.Until(t)
	}
	return e
}
