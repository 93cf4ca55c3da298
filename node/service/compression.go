package service

import (
	"fmt"
	"slices"
	"strings"

	"chronos/node"
	"chronos/node/broker/kafka"
)

// compressionRow is the setting of the compression of a single route.
func compressionRow() Setting {
	return Setting{
		Name: "compression", PlaceHolder: "NAME", Default: kafka.Uncompressed.String(),
		Help: "none, gzip, snappy, lz4 or zstd: how the batches of messages, outcomes and dead letters are " +
			"compressed. Every client reads none and gzip; for the others some need a codec beside them (kafkajs, " +
			"kafka-python).",
		form: form{choices: kafka.CompressionNames()}, logged: loggedNever,
		value: func(s *Settings) *Value { return &s.compression },
	}
}

// compressionSetting returns the setting by which the compression of a route is set.
func (s *Settings) compressionSetting(route int) *Value {
	if s.file != nil && s.file.routesOrigin != "" {
		return &s.file.routes[route].Compression
	}
	return &s.compression
}

// routeCompression returns the compression of a route: none, where nobody has set it.
func (s *Settings) routeCompression(route int) (kafka.Compression, error) {
	v := s.compressionSetting(route)
	if !v.IsSet {
		return kafka.Uncompressed, nil
	}
	compressed, known := kafka.ParseCompression(v.Text)
	if !known {
		return compressed, (&form{choices: kafka.CompressionNames()}).check(v)
	}
	return compressed, nil
}

// compressions sets the compressions of all routes. A topic has one, whichever of its routes a message comes from.
func (s *Settings) compressions(config *Config) error {
	routes := config.Node.Routes
	for i := range routes {
		compressed, err := s.routeCompression(i)
		if err != nil {
			return err
		}
		config.Compressions = append(config.Compressions, compressed)
		for j := range i {
			topic := sharedTopic(&routes[i], &routes[j])
			if topic == "" || config.Compressions[j] == compressed {
				continue
			}
			blamed, other := i, j
			if !s.compressionSetting(i).IsSet {
				blamed, other = j, i
			}
			return s.compressionSetting(blamed).Wrong(fmt.Sprintf("topic %s has %s by the route of input topic %s, "+
				"and a topic has one compression", topic, config.Compressions[other], routes[other].Input))
		}
	}
	return nil
}

// sharedTopic returns a topic that both routes may write to, "" for none; where only targets with a * have topics in
// common, it is such a target.
func sharedTopic(a, b *node.Route) string {
	for _, topic := range written(a) {
		if slices.Contains(written(b), topic) || b.Finds(topic) {
			return topic
		}
	}
	for _, topic := range written(b) {
		if a.Finds(topic) {
			return topic
		}
	}
	for _, one := range a.Targets {
		for _, other := range b.Targets {
			prefix, many := strings.CutSuffix(one, "*")
			others, manyOthers := strings.CutSuffix(other, "*")
			switch {
			case !many || !manyOthers || node.IsCallback(one) || node.IsCallback(other):
			case strings.HasPrefix(prefix, others):
				return one
			case strings.HasPrefix(others, prefix):
				return other
			}
		}
	}
	return ""
}

// written returns the topics that a route names and that are written to.
func written(r *node.Route) []string { return r.Topics()[1:] }

// Compression returns how what goes on each topic is compressed; nil where nothing is compressed. A topic of no route,
// such as that of the dead letters of a callback lane, is not.
func (c *Config) Compression() func(topic string) kafka.Compression {
	named := map[string]kafka.Compression{}
	some := false
	for i, compressed := range c.Compressions {
		for _, topic := range written(&c.Node.Routes[i]) {
			named[topic] = compressed
		}
		some = some || compressed != kafka.Uncompressed
	}
	if !some {
		return nil
	}
	return func(topic string) kafka.Compression {
		if compressed, known := named[topic]; known {
			return compressed
		}
		for i, compressed := range c.Compressions {
			if c.Node.Routes[i].Finds(topic) {
				return compressed
			}
		}
		return kafka.Uncompressed
	}
}

// compressed says in the log how a route compresses; "" for not at all.
func (c *Config) compressed(route int) string {
	if route >= len(c.Compressions) || c.Compressions[route] == kafka.Uncompressed {
		return ""
	}
	return ", compressed by " + c.Compressions[route].String()
}
