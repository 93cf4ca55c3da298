package listener

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// An answer that says what is wrong has at most 16 kB: ten errors, and of each text its beginning. What was sent can be
// megabytes, and each error of huma has all of it for its value.
const (
	maxErrors = 10
	maxShown  = 100   // characters of a value, or of where it is
	maxSaid   = 500   // characters of a sentence about one of them
	maxDetail = 1_000 // characters of the sentence about the request

	// maxErrorBytes bounds the errors, as JSON. The sentence before them has 6,000 bytes at most, if all is escaped.
	maxErrorBytes = 9 << 10
)

// Bound returns the errors that an answer shows, and its sentence, which says how many more there are.
func Bound(detail string, found []*huma.ErrorDetail) (sentence string, shown []*huma.ErrorDetail) {
	size := 0
	for _, one := range found {
		if len(shown) == maxErrors {
			break
		}
		if one == nil {
			continue
		}
		bounded := &huma.ErrorDetail{
			Message: Cut(one.Message, maxSaid), Location: Cut(one.Location, maxShown), Value: scalar(one.Value),
		}
		text, err := json.Marshal(bounded)
		if err != nil || size+len(text) > maxErrorBytes {
			break
		}
		size += len(text)
		shown = append(shown, bounded)
	}
	sentence = Cut(detail, maxDetail)
	if more := len(found) - len(shown); more > 0 {
		sentence += fmt.Sprintf(" (%d more errors are not shown)", more)
	}
	return sentence, shown
}

// scalar returns a value as an error shows it: a short text, or a number, and nothing where it is more than that.
func scalar(value any) any {
	switch v := value.(type) {
	case string:
		return Cut(v, maxShown)
	case bool, float64, int, int64:
		return v
	}
	return nil
}

// BoundErrors is a huma.Transformer that bounds the errors of huma.
func BoundErrors(_ huma.Context, _ string, answer any) (any, error) {
	if found, is := answer.(*huma.ErrorModel); is {
		bounded := *found
		bounded.Detail, bounded.Errors = Bound(found.Detail, found.Errors)
		return &bounded, nil
	}
	return answer, nil
}

// Doorman returns a huma middleware that does what comes before a body is decoded. First it asks allow, which answers
// whoever may not ask and returns false: nothing of theirs is read. Then it reads the body by ReadBody, up to limit
// bytes, and looks at it by CheckMembers. refuse answers what these refuse, with 422 for the last. The operation's
// own MaxBodyBytes is to be negative.
func Doorman(
	limit int64, allow func(huma.Context) (allowed bool), refuse Refusal,
) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		if !allow(ctx) {
			return
		}
		if ctx.Operation().RequestBody == nil {
			next(ctx)
			return
		}
		r, w := humago.Unwrap(ctx)
		body, done, err := ReadBody(w, r, limit)
		if err != nil {
			RefuseBody(w, err, refuse)
			return
		}
		defer done()
		if r.Context().Err() != nil {
			refuse(w, http.StatusBadRequest, "the client has gone") // which no one reads, but the metrics count
			return
		}
		if err := CheckMembers(body); err != nil {
			refuse(w, http.StatusUnprocessableEntity, err.Error())
			return
		}
		next(ctx)
	}
}
