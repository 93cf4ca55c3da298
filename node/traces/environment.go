package traces

import (
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Settings are what the standard environment of OpenTelemetry asks for. Those that are not here, such as certificates,
// headers, time limits and the length of the queue, are read by OpenTelemetry itself.
type Settings struct {
	Exporter string // otlp or console
	Protocol string // of otlp: http/protobuf or grpc
	Sampler  string // as it is called in the environment

	base sdktrace.Sampler
}

// The exporters, the protocols and the samplers that there are.
const (
	otlp    = "otlp"
	console = "console"
	none    = "none"

	overHTTP = "http/protobuf"
	overGRPC = "grpc"

	defaultSampler = "parentbased_always_on"
)

// Environment reads the environment. It returns nil if nothing in it asks for traces: neither an exporter nor an
// endpoint is named. OpenTelemetry would send them to a collector on this machine then, which hardly anybody has.
//
// What OpenTelemetry itself would only log, and then do something else, is an error: a wrong name of a sampler means
// many more spans than somebody has asked for.
func Environment() (*Settings, error) {
	s := &Settings{
		Exporter: os.Getenv("OTEL_TRACES_EXPORTER"),
		Protocol: first("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"),
		Sampler:  os.Getenv("OTEL_TRACES_SAMPLER"),
	}
	endpoint := first("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") || s.Exporter == none ||
		s.Exporter == "" && endpoint == "" {
		return nil, nil //nolint:nilnil // no settings are not an error: nobody has asked for traces
	}
	if s.Exporter == "" {
		s.Exporter = otlp
	}
	if !slices.Contains([]string{otlp, console}, s.Exporter) {
		return nil, fmt.Errorf("OTEL_TRACES_EXPORTER is %q: it must be otlp, console or none", s.Exporter)
	}
	if s.Exporter == otlp {
		if err := s.checkOTLP(); err != nil {
			return nil, err
		}
	}
	return s, s.checkSampler()
}

// checkOTLP checks where traces are sent to, and how.
func (s *Settings) checkOTLP() error {
	if s.Protocol == "" {
		s.Protocol = overHTTP
	}
	if s.Protocol != overHTTP && s.Protocol != overGRPC {
		return fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %q: it must be http/protobuf or grpc", s.Protocol)
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"} {
		text := os.Getenv(name)
		if text == "" {
			continue
		}
		// The text is not shown: it may have a password in it.
		if u, err := url.Parse(text); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return fmt.Errorf("%s is wrong: it must be a URL such as http://localhost:4318", name)
		}
	}
	return nil
}

// checkSampler makes the sampler.
func (s *Settings) checkSampler() error {
	if s.Sampler == "" {
		s.Sampler = defaultSampler
	}
	name, parentBased := strings.CutPrefix(s.Sampler, "parentbased_")
	switch name {
	case "always_on":
		s.base = sdktrace.AlwaysSample()
	case "always_off":
		s.base = sdktrace.NeverSample()
	case "traceidratio":
		ratio := 1.0
		if text := os.Getenv("OTEL_TRACES_SAMPLER_ARG"); text != "" {
			var err error
			if ratio, err = strconv.ParseFloat(text, 64); err != nil || !(ratio >= 0 && ratio <= 1) {
				return fmt.Errorf("OTEL_TRACES_SAMPLER_ARG is %q: it must be a share from 0 to 1", text)
			}
		}
		s.base = sdktrace.TraceIDRatioBased(ratio)
	default:
		return fmt.Errorf("OTEL_TRACES_SAMPLER is %q: it must be always_on, always_off or traceidratio, "+
			"or one of these after parentbased_", s.Sampler)
	}
	if parentBased {
		s.base = sdktrace.ParentBased(s.base)
	}
	return nil
}

// first returns the value of the first variable that has one.
func first(names ...string) string {
	for _, name := range names {
		if text := os.Getenv(name); text != "" {
			return text
		}
	}
	return ""
}
