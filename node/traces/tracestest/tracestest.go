// Package tracestest has a collector of traces for tests: it takes what OpenTelemetry sends over HTTP, and keeps it.
package tracestest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	v1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Collector takes traces.
type Collector struct {
	URL string // for OTEL_EXPORTER_OTLP_ENDPOINT

	mu       sync.Mutex
	spans    []*v1.Span
	bodies   [][]byte
	resource map[string]string
}

// Start starts a collector on a free port, which ends with the test.
func Start(t *testing.T) *Collector {
	t.Helper()
	c := &Collector{resource: map[string]string{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if err := c.take(request); err != nil {
			t.Errorf("traces come to %s: %v", request.URL.Path, err)
		}
		w.Header().Set("Content-Type", "application/x-protobuf") // of an empty answer: all is well
	}))
	t.Cleanup(server.Close)
	c.URL = server.URL
	return c
}

// take keeps what a request brings.
func (c *Collector) take(request *http.Request) error {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return err
	}
	if request.URL.Path != "/v1/traces" {
		return errors.New("they belong to /v1/traces")
	}
	var export collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(body, &export); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bodies = append(c.bodies, body)
	for _, resource := range export.GetResourceSpans() {
		for _, a := range resource.GetResource().GetAttributes() {
			c.resource[a.GetKey()] = a.GetValue().GetStringValue()
		}
		for _, scope := range resource.GetScopeSpans() {
			c.spans = append(c.spans, scope.GetSpans()...)
		}
	}
	return nil
}

// Named returns the spans of that name, in the order in which they came.
func (c *Collector) Named(name string) []*v1.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.spans), func(s *v1.Span) bool { return s.GetName() != name })
}

// Bodies returns all that has come, as it came.
func (c *Collector) Bodies() [][]byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.bodies)
}

// Resource returns what the sender says of itself.
func (c *Collector) Resource(key string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.resource[key]
}

// Attribute returns an attribute of a span as text; "" if it has none.
func Attribute(span *v1.Span, key string) string {
	for _, a := range span.GetAttributes() {
		if a.GetKey() != key {
			continue
		}
		if text := a.GetValue().GetStringValue(); text != "" {
			return text
		}
		return strings.TrimSpace(fmt.Sprint(a.GetValue()))
	}
	return ""
}

// Environment sets variables of OpenTelemetry, "NAME=value", and unsets all others that decide something: those of
// whoever runs the test.
func Environment(t *testing.T, set ...string) {
	t.Helper()
	for _, name := range []string{
		"OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG",
		"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_PROTOCOL",
		"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES",
		"OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_BSP_SCHEDULE_DELAY",
	} {
		t.Setenv(name, "")
	}
	for _, one := range set {
		name, value, _ := strings.Cut(one, "=")
		t.Setenv(name, value)
	}
}
