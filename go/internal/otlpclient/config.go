// SPDX-License-Identifier: Apache-2.0

// Package otlpclient is what the exporters for gRPC and HTTP share: settings, OpenTelemetry's environment variables, retries.
package otlpclient

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// RetryConfig says how long and how often a request that failed for a reason that may pass is repeated.
type RetryConfig struct {
	Enabled         bool
	InitialInterval time.Duration // doubled after each try
	MaxInterval     time.Duration
	MaxElapsedTime  time.Duration // 0: without end
}

// Config is the configuration of an exporter.
type Config struct {
	Endpoint string // host:port
	Path     string // of HTTP
	Insecure bool
	TLS      *tls.Config
	Headers  map[string]string
	Gzip     bool
	Timeout  time.Duration
	Retry    RetryConfig
	Err      error // the first option that cannot be used
}

// Default returns the configuration that the environment gives.
func Default(port int, path string) Config {
	c := Config{Endpoint: fmt.Sprintf("localhost:%d", port), Path: path, Gzip: false, Timeout: 10 * time.Second,
		Retry: RetryConfig{true, 5 * time.Second, 30 * time.Second, time.Minute}, Headers: map[string]string{}}
	if v := os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"); v != "" {
		c.SetURL(v, true)
	}
	if v := os.Getenv("OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT"); v != "" {
		c.SetURL(v, false)
	}
	if v := env("INSECURE"); v != "" {
		c.Insecure, _ = strconv.ParseBool(v)
	}
	for _, pair := range strings.Split(env("HEADERS"), ",") {
		if k, v, ok := strings.Cut(pair, "="); ok {
			if plain, err := url.PathUnescape(strings.TrimSpace(v)); err == nil {
				c.Headers[strings.ToLower(strings.TrimSpace(k))] = plain
			}
		}
	}
	if v := env("COMPRESSION"); v != "" {
		c.SetCompression(v)
	}
	if n, err := strconv.Atoi(env("TIMEOUT")); err == nil && n > 0 {
		c.Timeout = time.Duration(n) * time.Millisecond
	}
	c.certificates()
	return c
}

// env returns OTEL_EXPORTER_OTLP_PROFILES_name, else OTEL_EXPORTER_OTLP_name.
func env(name string) string {
	if v := os.Getenv("OTEL_EXPORTER_OTLP_PROFILES_" + name); v != "" {
		return v
	}
	return os.Getenv("OTEL_EXPORTER_OTLP_" + name)
}

func (c *Config) certificates() {
	if file := env("CERTIFICATE"); file != "" {
		pem, err := os.ReadFile(file)
		pool := x509.NewCertPool()
		if err == nil && !pool.AppendCertsFromPEM(pem) {
			err = fmt.Errorf("%s: no certificate in PEM", file)
		}
		c.fail(err)
		c.tls().RootCAs = pool
	}
	if cert, key := env("CLIENT_CERTIFICATE"), env("CLIENT_KEY"); cert != "" && key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		c.fail(err)
		c.tls().Certificates = []tls.Certificate{pair}
	}
}

func (c *Config) tls() *tls.Config {
	if c.TLS == nil {
		c.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return c.TLS
}

func (c *Config) fail(err error) {
	if c.Err == nil && err != nil {
		c.Err = err
	}
}

// SetURL takes the endpoint from a URL: http is insecure, https is not. common: the URL is for all signals, so that the
// default path is appended to it.
func (c *Config) SetURL(text string, common bool) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		c.fail(fmt.Errorf("the OTLP endpoint %q is not a URL with http or https", text))
		return
	}
	c.Endpoint, c.Insecure = u.Host, u.Scheme == "http"
	if u.Port() == "" && c.Path == "" {
		c.Endpoint += ":4317"
	}
	switch {
	case common:
		c.Path = strings.TrimSuffix(u.Path, "/") + c.Path
	case u.Path != "" && u.Path != "/":
		c.Path = u.Path
	}
}

// SetEndpoint takes host:port. A URL is taken as well, because it is what people write.
func (c *Config) SetEndpoint(endpoint string) {
	if strings.Contains(endpoint, "://") {
		c.SetURL(endpoint, true)
		return
	}
	if endpoint == "" || strings.ContainsAny(endpoint, "/ ") {
		c.fail(fmt.Errorf("the OTLP endpoint %q is not host:port", endpoint))
		return
	}
	c.Endpoint = endpoint
}

// SetCompression takes "gzip" or "none".
func (c *Config) SetCompression(name string) {
	switch name {
	case "gzip":
		c.Gzip = true
	case "none", "":
		c.Gzip = false
	default:
		c.fail(fmt.Errorf("compression %q is not supported: use gzip or none", name))
	}
}

// SetHeaders replaces the headers.
func (c *Config) SetHeaders(h map[string]string) {
	c.Headers = map[string]string{}
	for k, v := range h {
		c.Headers[strings.ToLower(k)] = v
	}
}

// URL returns the URL to send to.
func (c *Config) URL() string {
	if c.Insecure {
		return "http://" + c.Endpoint + c.Path
	}
	return "https://" + c.Endpoint + c.Path
}
