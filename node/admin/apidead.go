package admin

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"chronos/node/deadletter"
	"chronos/node/view"
)

// DeadLetters answers for the dead-letter topics of a node.
type DeadLetters interface {
	// Topics returns them.
	Topics() []string

	// List returns the latest dead letters of a topic.
	List(ctx context.Context, filter deadletter.Filter) (deadletter.List, error)

	// Replay puts one page of them back, or counts them. Once it has begun to write, ctx ends nothing.
	Replay(ctx context.Context, request deadletter.Request) (deadletter.Replayed, error)
}

// DeadTopics are the dead-letter topics of a node.
type DeadTopics struct {
	Topics []string `json:"topics"`
}

// DeadLetter is a record of a dead-letter topic.
type DeadLetter struct {
	Partition int32       `json:"partition"`
	Offset    int64       `json:"offset"`
	Written   time.Time   `json:"written"`
	ID        string      `json:"id"`
	Reason    string      `json:"reason" doc:"The code of why; empty for what is no dead letter of Chronos."`
	Error     string      `json:"error,omitempty" doc:"The same in words."`
	Source    string      `json:"source,omitempty" doc:"The input topic that it came from."`
	Cut       string      `json:"cut,omitempty" doc:"What is missing of it."`
	Key       *view.Bytes `json:"key,omitempty"`
}

// Tally is how many dead letters there are of a kind.
type Tally struct {
	What string `json:"what"`
	N    int    `json:"n"`
}

// DeadPage are the latest dead letters of a topic.
type DeadPage struct {
	Letters []DeadLetter `json:"letters" doc:"The latest first, 100 at most."`
	Matched int          `json:"matched" doc:"How many match among those that were looked at."`
	Reasons []Tally      `json:"reasons" doc:"How many of these there are of each reason."`
	Looked  int          `json:"looked" doc:"How many records were looked at: the last ones, about 1,000."`
	Older   bool         `json:"older" doc:"There are older ones, which were not looked at."`
}

// ReplayRequest says which dead letters are to go back to the input topics that they came from. Each request is about
// one page of them, and says where to go on.
type ReplayRequest struct {
	Only   ReplayFilter `json:"only,omitzero" doc:"Which ones; all of the topic if it is empty."`
	DryRun bool         `json:"dry_run,omitempty" doc:"Change nothing, and count what would become of them."`
	Cursor string       `json:"cursor,omitempty" maxLength:"100000" doc:"Where to go on, or the window of a dry run."`
	By     string       `json:"by,omitempty" maxLength:"200" doc:"Who does it. Default the name of the token."`
	Reason string       `json:"reason,omitempty" maxLength:"1000" doc:"What for. It goes into the log."`
}

// ReplayFilter says which dead letters are meant.
type ReplayFilter struct {
	Reason string `json:"reason,omitempty" doc:"Those with this reason."`
	ID     string `json:"id,omitempty" doc:"Those of this message id."`
}

// ReplayedPage is what has become of the dead letters of one page.
type ReplayedPage struct {
	Matched int     `json:"matched"`
	Back    []Tally `json:"back" doc:"How many go back, by input topic."`
	Again   []Tally `json:"again" doc:"How many of these are most likely refused again, by reason."`
	LeftOut []Tally `json:"left_out" doc:"How many stay, by why."`
	Next    string  `json:"next,omitempty" doc:"The cursor of the next page; empty when this is the last."`
	Window  string  `json:"window" doc:"As the first cursor of a replay: what was there now, and nothing later."`
}

type deadListInput struct {
	Topic  string `path:"topic" maxLength:"249"`
	Reason string `query:"reason" doc:"Only those with this reason."`
	ID     string `query:"id" doc:"Only those of this message id."`
}

type replayInput struct {
	Topic string `path:"topic" maxLength:"249"`
	Body  ReplayRequest
}

func (a *API) deadLetters(api huma.API) {
	read(a, api, "/v1/dead-letters", "deadTopics", "The dead-letter topics of this node",
		func(context.Context, *nothing) (DeadTopics, error) {
			topics := DeadTopics{Topics: []string{}}
			if a.Dead != nil {
				topics.Topics = append(topics.Topics, a.Dead.Topics()...)
			}
			return topics, nil
		})
	read(a, api, "/v1/dead-letters/{topic}", "deadLetters", "The latest dead letters of a topic", a.listDead)
	write(a, api, http.MethodPost, "/v1/dead-letters/{topic}/replay", "replay",
		"Put dead letters back on the topics that they came from, one page at a time. They stay where they are",
		func(ctx context.Context, in *replayInput) (ReplayedPage, error) {
			return a.replay(ctx, in.Topic, &in.Body)
		})
}

func (a *API) listDead(ctx context.Context, in *deadListInput) (DeadPage, error) {
	if a.Dead == nil {
		return DeadPage{}, noDead()
	}
	list, err := a.Dead.List(ctx, deadletter.Filter{Topic: in.Topic, Reason: in.Reason, ID: in.ID})
	if err != nil {
		return DeadPage{}, deadProblem(in.Topic, err)
	}
	shown := DeadPage{
		Letters: []DeadLetter{}, Matched: list.Matched, Reasons: tallies(list.Reasons), Looked: list.Looked,
		Older: list.Older,
	}
	for i := range list.Letters {
		l := &list.Letters[i]
		shown.Letters = append(shown.Letters, DeadLetter{
			l.Partition, l.Offset, l.Written, l.ID, l.Reason, l.Error, l.Source, l.Cut, view.BytesOf(l.Key),
		})
	}
	return shown, nil
}

func (a *API) replay(ctx context.Context, topic string, request *ReplayRequest) (ReplayedPage, error) {
	if a.Dead == nil {
		return ReplayedPage{}, noDead()
	}
	if request.By == "" {
		request.By = callerOf(ctx).Name()
	}
	// A page that is begun is finished: what is half done nobody could count.
	done, err := a.Dead.Replay(context.WithoutCancel(ctx), deadletter.Request{
		Filter: deadletter.Filter{Topic: topic, Reason: request.Only.Reason, ID: request.Only.ID},
		DryRun: request.DryRun, Cursor: request.Cursor,
	})
	if !request.DryRun && (done.Matched > 0 || err != nil) {
		a.auditReplay(ctx, topic, request, &done, err)
	}
	if err != nil {
		return ReplayedPage{}, deadProblem(topic, err)
	}
	return ReplayedPage{
		done.Matched, tallies(done.Back), tallies(done.Again), tallies(done.LeftOut), done.Next, done.Window,
	}, nil
}

func (a *API) auditReplay(
	ctx context.Context, topic string, request *ReplayRequest, done *deadletter.Replayed, err error,
) {
	attrs := []slog.Attr{slog.String("topic", topic)}
	for _, asked := range []struct{ name, value string }{
		{"only_reason", request.Only.Reason}, {"only_id", request.Only.ID},
	} {
		if asked.value != "" {
			attrs = append(attrs, slog.String(asked.name, asked.value))
		}
	}
	if err != nil {
		attrs = append(attrs, slog.String("error", oneLine(err.Error())))
	} else {
		written := 0
		for _, t := range tallies(done.Back) {
			written += t.N
		}
		attrs = append(attrs, slog.Int("written", written), slog.Int("left_out", done.Matched-written))
	}
	a.auditLine(ctx, "audit: somebody has put dead letters back by the admin API", "replay", request.By,
		request.Reason, attrs...)
}

func noDead() error {
	return huma.Error404NotFound("there are no dead letters here: this node runs without Kafka")
}

// deadProblem returns the error for a client. It is about Kafka, and not about the store.
func deadProblem(topic string, err error) error {
	if wrong, is := errors.AsType[*deadletter.RequestError](err); is {
		return huma.Error422UnprocessableEntity(wrong.Sentence)
	}
	if partly, is := errors.AsType[*deadletter.PartlyError](err); is {
		return huma.Error503ServiceUnavailable(oneLine(partly.Error()))
	}
	return huma.Error503ServiceUnavailable("Kafka has not answered about dead letters of " + topic +
		", and nothing was written: " + oneLine(err.Error()))
}

// tallies returns counts in the order of their names.
func tallies(counts map[string]int) []Tally {
	list := []Tally{}
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		list = append(list, Tally{what, counts[what]})
	}
	return list
}
