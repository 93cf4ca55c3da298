package doctor

import (
	"context"
	"strings"
	"unicode"
)

// journal sees whether the topics of a journal in Kafka are as they have to be.
func (e *examination) journal(ctx context.Context) (string, error) {
	j := e.config.Store.Journal()
	said, problems, err := j.Examine(ctx)
	for _, p := range problems {
		e.find(Error, "journal "+p.Topic, p.Says, sentence(p.Means), sentence(p.Do))
	}
	return said, err
}

// sentence makes a sentence of a part of one.
func sentence(part string) string {
	first := []rune(strings.TrimSuffix(part, "."))
	if len(first) == 0 {
		return ""
	}
	first[0] = unicode.ToUpper(first[0])
	return string(first) + "."
}
