// SPDX-License-Identifier: Apache-2.0

package otlpclient

import (
	"crypto/tls"
	"time"
)

// Option configures an exporter, for gRPC and HTTP alike.
type Option func(*Config)

// With applies options to the configuration that the environment gives.
func With(c Config, options []Option) (Config, error) {
	for _, o := range options {
		o(&c)
	}
	return c, c.Err
}

// WithEndpoint sets host:port.
func WithEndpoint(hostport string) Option { return func(c *Config) { c.SetEndpoint(hostport) } }

// WithEndpointURL sets the whole URL, with its path; http is insecure, https is not.
func WithEndpointURL(url string) Option { return func(c *Config) { c.SetURL(url, false) } }

// WithInsecure sends without TLS.
func WithInsecure() Option { return func(c *Config) { c.Insecure = true } }

// WithTLS sets the certificates to trust and to show.
func WithTLS(t *tls.Config) Option { return func(c *Config) { c.TLS = t } }

// WithHeaders adds headers to every request.
func WithHeaders(headers map[string]string) Option { return func(c *Config) { c.SetHeaders(headers) } }

// WithCompression sets "gzip" or "none".
func WithCompression(name string) Option { return func(c *Config) { c.SetCompression(name) } }

// WithTimeout limits one try.
func WithTimeout(d time.Duration) Option { return func(c *Config) { c.Timeout = d } }

// WithRetry sets how often a request is repeated.
func WithRetry(r RetryConfig) Option { return func(c *Config) { c.Retry = r } }
