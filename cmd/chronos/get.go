package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"chronos/node/admin"
)

// getCommand shows a message.
type getCommand struct {
	ID      string `arg:"" name:"id" help:"The id of the message."`
	Lane    string `placeholder:"LANE" help:"Only on this lane."`
	Payload bool   `help:"Show its value, too."`

	askFlags
}

// Help says what it shows.
func (c *getCommand) Help() string {
	return `Shows what the store has of a message: its state, its times, who has claimed it, how often it was tried,
where it came from, key and headers. What has fired is not in the store any more. A message is named by id and lane,
so there may be several. Exit code 4: there is none.`
}

// Run shows it.
func (c *getCommand) Run(ctx context.Context, w *world) (err error) {
	a, err := c.open(ctx, w)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.close()) }()
	query := url.Values{}
	if c.Lane != "" {
		query.Set("lane", c.Lane)
	}
	if c.Payload {
		query.Set("payload", "true")
	}
	found, err := ask[admin.Messages](ctx, a, http.MethodGet,
		"/v1/messages/"+url.PathEscape(c.ID)+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	if len(found.Messages) == 0 {
		return notFoundf("no message with id %s waits or is claimed: it has fired, or was never taken in", shown(c.ID))
	}
	if c.Output == "json" {
		return printJSON(w.stdout, found)
	}
	page := &page{out: w.stdout}
	for i := range found.Messages {
		if i > 0 {
			page.line("")
		}
		printMessage(page, &found.Messages[i], c.Payload, time.Now())
	}
	return page.err
}

// printMessage prints all that is known of a message.
func printMessage(page *page, m *admin.Message, payload bool, now time.Time) {
	at := func(t time.Time) string {
		return t.UTC().Format("2006-01-02T15:04:05.000000Z") + "  " + ago(t, now)
	}
	rows := [][]any{
		{"id", m.ID}, {"lane", m.Lane}, {"state", m.State}, {"deadline", at(m.Deadline)},
	}
	if !m.Due.Equal(m.Deadline) {
		rows = append(rows, []any{"put off to", at(m.Due)})
	}
	if m.Part != "" {
		what := fmt.Sprintf("%s %s of %s does not answer", partKind(m.Lane), m.Part, m.Lane)
		rows = append(rows, []any{"parked", what})
	}
	if m.Claim != nil {
		rows = append(rows, []any{"claimed by", m.Claim.Node}, []any{"claimed", at(m.Claim.Since)},
			[]any{"claim expires", at(m.Claim.Expires)})
	}
	if m.Series != nil {
		occurrence := fmt.Sprint(m.Series.Sequence)
		switch {
		case m.Series.Stopped:
			occurrence += ", the last: the series was cancelled"
		case m.Series.Next == nil:
			occurrence += ", the last"
		default:
			occurrence += "; the next comes at " + at(*m.Series.Next)
		}
		rows = append(rows, []any{"series", m.Series.Rule}, []any{"occurrence", occurrence})
	}
	if m.NotAfter != nil {
		rows = append(rows, []any{"not after", at(*m.NotAfter)})
	}
	rows = append(rows, []any{"attempts", m.Attempts})
	if m.Trouble != nil {
		rows = append(rows, []any{"last error", m.Trouble.Error}, []any{"which was", at(m.Trouble.At)})
	}
	if m.Origin != nil {
		rows = append(rows, []any{"submitted by", fmt.Sprintf("topic %s partition %d offset %d",
			m.Origin.Topic, m.Origin.Partition, m.Origin.Offset)})
	}
	rows = append(rows, []any{"size", fmt.Sprint(m.Bytes, " bytes")}, []any{"key", m.Key.String()})
	for _, h := range m.Headers {
		rows = append(rows, []any{"header", h.Name + " = " + h.Value.String()})
	}
	if payload {
		rows = append(rows, []any{"value", m.Value.String()})
	}
	page.table(rows...)
}
