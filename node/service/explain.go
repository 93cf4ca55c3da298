package service

import (
	"fmt"
	"log/slog"
	"time"

	"chronos/node"
)

// explain says why a question to the store was not answered, for a person who has asked the API of this node.
func (s *Service) explain(err error) string {
	s.log.Debug("a question to the store was not answered", slog.String("error", oneLine(err)))
	for _, p := range s.reporter.Problems() {
		if p.What == title(node.PortStore, "") && p.Call == "" {
			return p.Sentence(time.Now())
		}
	}
	return fmt.Sprintf("The store has not answered this question: %s. It answers the node: ask again.", cause(err))
}
