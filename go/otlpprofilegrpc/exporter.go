// SPDX-License-Identifier: Apache-2.0

// Package otlpprofilegrpc exports profiles by OTLP over gRPC.
//
// One unary call is all that OTLP needs of gRPC, so the exporter speaks it directly over golang.org/x/net/http2: a program that
// has no gRPC otherwise does not get all of it, and one that has can have any version.
package otlpprofilegrpc

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/http2"

	"wick.dev/go/internal/otlpclient"
)

// RetryConfig says how a request that failed for a reason that may pass is repeated.
type RetryConfig = otlpclient.RetryConfig

// Option configures an Exporter.
type Option = otlpclient.Option

// The options, which are those of both exporters under the names that OpenTelemetry gives them for gRPC.
var (
	// WithEndpoint sets host:port; the default is localhost:4317, or what OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT and
	// OTEL_EXPORTER_OTLP_ENDPOINT say.
	WithEndpoint = otlpclient.WithEndpoint
	// WithEndpointURL sets the endpoint from a URL; http is insecure, https is not.
	WithEndpointURL = otlpclient.WithEndpointURL
	// WithInsecure sends without TLS.
	WithInsecure = otlpclient.WithInsecure
	// WithTLSConfig sets the certificates to trust and to show.
	WithTLSConfig = otlpclient.WithTLS
	// WithHeaders adds metadata to every request, as a token: {"authorization": "Bearer ..."}.
	WithHeaders = otlpclient.WithHeaders
	// WithCompressor sets "gzip" or "none", the default.
	WithCompressor = otlpclient.WithCompression
	// WithTimeout limits one try; the default is 10 s.
	WithTimeout = otlpclient.WithTimeout
	// WithRetry sets how often a request is repeated.
	WithRetry = otlpclient.WithRetry
)

// Exporter sends profiles over gRPC. It implements profiling.Exporter.
type Exporter struct {
	client otlpclient.Client
	http   *http.Client
}

// New returns an exporter. It does not connect: a server that is not there yet is tried again with each export.
func New(_ context.Context, options ...Option) (*Exporter, error) {
	c, err := otlpclient.With(otlpclient.Default(4317, ""), options)
	if err != nil {
		return nil, err
	}
	c.Path = "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export"
	dialer := net.Dialer{Timeout: c.Timeout}
	t := &http2.Transport{
		AllowHTTP:          c.Insecure,
		DisableCompression: true,
		TLSClientConfig:    c.TLS,
		ReadIdleTimeout:    30 * time.Second, // a connection that is gone is noticed
	}
	if c.Insecure {
		t.DialTLSContext = func(ctx context.Context, network, addr string, _ *tls.Config) (net.Conn, error) {
			return dialer.DialContext(ctx, network, addr)
		}
	}
	e := &Exporter{http: &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
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
