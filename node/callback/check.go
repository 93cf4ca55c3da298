package callback

import (
	"context"

	"chronos/node"
)

// Check returns why no request is ever made for a message of a lane, as far as that can be told from its headers; nil
// if one is. Whoever takes messages in can say so at once, where Publish says it when the message is due. What a name
// leads to is only known then.
func (s *Sink) Check(lane string, headers []node.Header) error {
	if s.config.Functions[lane] != nil {
		return nil // the function decides
	}
	l := s.lanes[lane]
	if l == nil {
		l = s.others
	}
	record := &node.Record{Topic: lane, Headers: headers}
	_, err := l.request(context.Background(), record, read(record), s.config.Agent)
	return err
}
