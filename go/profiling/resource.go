// SPDX-License-Identifier: Apache-2.0

package profiling

import (
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"go.opentelemetry.io/otel/attribute"

	"wick.dev/go/internal/otlp"
)

// resourceOf returns the attributes of the resource. Later ones win: what is found here, OTEL_RESOURCE_ATTRIBUTES,
// WithResource, OTEL_SERVICE_NAME, WithResourceAttributes. host.name, process.pid and process.executable.* tell the server that
// a host agent and this program mean the same process.
func resourceOf(c *config) []otlp.KeyValue {
	var keys []string
	values := map[string]interface{}{}
	set := func(key string, v interface{}) {
		if s, ok := v.(string); key == "" || v == nil || ok && s == "" {
			return
		}
		if _, ok := values[key]; !ok {
			keys = append(keys, key)
		}
		values[key] = v
	}
	path, _ := os.Executable()
	host, _ := os.Hostname()
	name := filepath.Base(os.Args[0])
	set("service.name", name)
	set("host.name", host)
	set("process.pid", int64(os.Getpid()))
	set("process.executable.name", name)
	set("process.executable.path", path)
	set("process.runtime.name", "go")
	set("process.runtime.version", runtime.Version())
	set("telemetry.sdk.language", "go")
	for _, pair := range strings.Split(os.Getenv("OTEL_RESOURCE_ATTRIBUTES"), ",") {
		if k, v, ok := strings.Cut(pair, "="); ok {
			if plain, err := url.PathUnescape(strings.TrimSpace(v)); err == nil {
				set(strings.TrimSpace(k), plain)
			}
		}
	}
	if c.resource != nil {
		for _, kv := range c.resource.Attributes() {
			if kv.Key == "service.name" && strings.HasPrefix(kv.Value.Emit(), "unknown_service") {
				continue // the SDK's default says less than the executable
			}
			set(string(kv.Key), plainValue(kv.Value))
		}
	}
	set("service.name", os.Getenv("OTEL_SERVICE_NAME"))
	for _, kv := range c.attributes {
		set(string(kv.Key), plainValue(kv.Value))
	}
	list := make([]otlp.KeyValue, len(keys))
	for i, k := range keys {
		list[i] = otlp.KeyValue{Key: k, Value: values[k]}
	}
	return list
}

func plainValue(v attribute.Value) interface{} {
	switch v.Type() {
	case attribute.BOOL:
		return v.AsBool()
	case attribute.INT64:
		return v.AsInt64()
	case attribute.FLOAT64:
		return v.AsFloat64()
	case attribute.STRING:
		return v.AsString()
	case attribute.STRINGSLICE:
		return v.AsStringSlice()
	}
	return v.Emit()
}
