package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"
)

// journal sees whether the topics of a journal in Kafka are as they have to be.
func (e *examination) journal(ctx context.Context) (string, error) {
	j := e.config.Store.Journal()
	if j.Dir != "" {
		e.private("the folder "+j.Dir, j.Dir)
	}
	said, problems, err := j.Examine(ctx)
	for _, p := range problems {
		e.find(Error, "journal "+p.Topic, p.Says, sentence(p.Means), sentence(p.Do))
	}
	return said, err
}

// unreadable sees whether the journal has entries that nodes cannot read.
func (e *examination) unreadable(ctx context.Context) (string, error) {
	const shown = 20
	found, err := e.config.Store.Journal().SearchUnreadable(ctx, shown, lookTimeout-2*time.Second)
	if err != nil {
		return "", err
	}
	for i := range found.Entries {
		u := &found.Entries[i]
		e.find(Error, "journal "+u.Topic, "has an entry that cannot be read: "+u.String(),
			"The next owner of the partition cannot take it over, and nothing of it is taken in or fires then.",
			"If a newer release of Chronos wrote it, run that release. If Chronos did not, look at it with chronos "+
				"journal skip, which gets past it.")
	}
	says := fmt.Sprintf("all of %s", count(len(found.Partitions), "partition"))
	if found.Left > 0 {
		says = fmt.Sprintf("the newest of %s, and not %d offsets before", count(len(found.Partitions), "partition"),
			found.Left)
		e.find(Note, "the journal", fmt.Sprintf("is long, and its %d oldest offsets were not looked at", found.Left),
			"A node that owns a partition has read all of it.", "chronos journal skip looks at everything.")
	}
	return says, nil
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
