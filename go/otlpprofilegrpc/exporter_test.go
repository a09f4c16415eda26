// SPDX-License-Identifier: Apache-2.0

package otlpprofilegrpc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel"

	"wick.dev/go/internal/otlptest"
)

var quick = WithRetry(RetryConfig{Enabled: true, InitialInterval: time.Millisecond, MaxInterval: 5 * time.Millisecond, MaxElapsedTime: time.Minute})

func export(t *testing.T, s *otlptest.Server, options ...Option) error {
	t.Helper()
	e, err := New(context.Background(), append([]Option{WithEndpoint(s.Address()), quick}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Shutdown(context.Background())
	return e.ExportProfiles(context.Background(), []byte("request"))
}

func TestExport(t *testing.T) {
	s := otlptest.New(false)
	defer s.Close()
	if err := export(t, s, WithInsecure(), WithHeaders(map[string]string{"Authorization": "Bearer t"})); err != nil {
		t.Fatal(err)
	}
	if err := export(t, s, WithInsecure(), WithCompressor("gzip")); err != nil {
		t.Fatal(err)
	}
	r := s.Requests()
	if len(r) != 2 || string(r[0].Body) != "request" || string(r[1].Body) != "request" ||
		r[0].Path != "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export" ||
		r[0].Headers.Get("authorization") != "Bearer t" || r[0].Headers.Get("te") != "trailers" ||
		r[1].Headers.Get("grpc-encoding") != "gzip" || !strings.HasSuffix(r[1].Headers.Get("grpc-timeout"), "m") {
		t.Fatalf("%+v", r)
	}
}

func TestTLS(t *testing.T) {
	s := otlptest.New(true)
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	if err := export(t, s, WithTLSConfig(&tls.Config{RootCAs: roots})); err != nil {
		t.Fatal(err)
	}
	once := WithRetry(RetryConfig{})
	if err := export(t, s, once); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Fatalf("an unsigned certificate: %v", err)
	}
}

func TestRetry(t *testing.T) {
	// google.rpc.Status {code: 8, details: [RetryInfo {retry_delay: 1 ns}]}
	info := append([]byte("\x0a\x28type.googleapis.com/google.rpc.RetryInfo\x12\x04\x0a\x02\x10\x01"), nil...)
	status := append([]byte{8, 8, 0x1a, byte(len(info))}, info...)
	withInfo := map[string]string{"grpc-status-details-bin": base64.RawStdEncoding.EncodeToString(status)}
	for _, x := range []struct {
		name   string
		answer otlptest.Answer
		tries  int
	}{
		{"unavailable", otlptest.Answer{Status: 14}, 2},
		{"deadline", otlptest.Answer{Status: 4}, 2},
		{"exhausted, with a delay", otlptest.Answer{Status: 8, Headers: withInfo}, 2},
		{"exhausted", otlptest.Answer{Status: 8}, 1},
		{"invalid", otlptest.Answer{Status: 3, Headers: map[string]string{"grpc-message": "bad%20thing"}}, 1},
		{"unauthenticated", otlptest.Answer{Status: 16}, 1},
	} {
		s := otlptest.New(false, x.answer)
		err := export(t, s, WithInsecure())
		if n := len(s.Requests()); n != x.tries || (err == nil) != (x.tries == 2) {
			t.Errorf("%s: %d tries, %v", x.name, n, err)
		}
		if x.name == "invalid" && (err == nil || !strings.Contains(err.Error(), "INVALID_ARGUMENT: bad thing")) {
			t.Error(err)
		}
		s.Close()
	}
}

func TestRetryEnds(t *testing.T) {
	e, err := New(context.Background(), WithEndpoint("127.0.0.1:1"), WithInsecure())
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- e.ExportProfiles(context.Background(), nil) }()
	time.Sleep(10 * time.Millisecond)
	e.Shutdown(context.Background())
	select {
	case err := <-ended:
		if err == nil {
			t.Fatal("an export to nowhere succeeded")
		}
	case <-time.After(time.Minute):
		t.Fatal("Shutdown does not end retries")
	}
	if e.ExportProfiles(context.Background(), nil) == nil {
		t.Fatal("an export after Shutdown succeeded")
	}
}

func TestPartialSuccess(t *testing.T) {
	var reported []string
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { reported = append(reported, err.Error()) }))
	s := otlptest.New(false, otlptest.Answer{Body: []byte("\x0a\x08\x08\x02\x12\x04nope")}, otlptest.Answer{Body: []byte("\x0a\x00")})
	defer s.Close()
	for i := 0; i < 2; i++ {
		if err := export(t, s, WithInsecure()); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.Requests()) != 2 || len(reported) != 1 || !strings.Contains(reported[0], "2 profiles rejected: nope") {
		t.Fatal(len(s.Requests()), reported)
	}
}

func TestEnvironment(t *testing.T) {
	s := otlptest.New(false)
	defer s.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+s.Address())
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-a=b%20c,other=1")
	t.Setenv("OTEL_EXPORTER_OTLP_PROFILES_COMPRESSION", "gzip")
	e, err := New(context.Background())
	if err == nil {
		err = e.ExportProfiles(context.Background(), []byte("x"))
	}
	if err != nil {
		t.Fatal(err)
	}
	if r := s.Requests(); r[0].Headers.Get("x-a") != "b c" || r[0].Headers.Get("grpc-encoding") != "gzip" {
		t.Fatalf("%+v", r)
	}
	for _, bad := range []Option{WithEndpoint("a b"), WithEndpointURL("ftp://x"), WithCompressor("brotli")} {
		if _, err := New(context.Background(), bad); err == nil {
			t.Error("an option that cannot be used was taken")
		}
	}
}
