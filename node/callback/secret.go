package callback

import (
	"fmt"
	"strings"
	"sync"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"chronos/node/credential"
)

// secrets are what the requests of a lane are signed with: those in a file, which is read anew when it was not for a
// while. A request is signed with each of them, so that receivers can go over from one to the next.
type secrets struct {
	source *credential.Source[[]*standardwebhooks.Webhook]

	mu   sync.Mutex
	last []*standardwebhooks.Webhook
	read time.Time
}

// rereadAfter is how soon secrets that were replaced are used.
const rereadAfter = 5 * time.Second

// minSecret is the least number of bytes of a secret, by the specification.
const minSecret = 24

func newSecrets(keeper *credential.Keeper, file string) (*secrets, error) {
	if keeper == nil {
		keeper = &credential.Keeper{}
	}
	source, err := credential.New(keeper, func() ([]*standardwebhooks.Webhook, error) { return readSecrets(file) })
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the file
	}
	return &secrets{source: source}, nil
}

func (s *secrets) get() []*standardwebhooks.Webhook {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); s.read.IsZero() || now.Sub(s.read) >= rereadAfter {
		s.last, s.read = s.source.Get(), now
	}
	return s.last
}

// readSecrets reads a file of secrets, which are separated by spaces or ends of lines. No error shows one.
func readSecrets(file string) ([]*standardwebhooks.Webhook, error) {
	content, err := credential.ReadFile(file)
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the file
	}
	words := strings.Fields(string(content))
	if len(words) == 0 {
		return nil, fmt.Errorf("the file %s is empty: there must be a secret in it, whsec_ and base64", file)
	}
	all := make([]*standardwebhooks.Webhook, len(words))
	for i, word := range words {
		webhook, err := standardwebhooks.NewWebhook(word)
		if err != nil || len(strings.TrimPrefix(word, "whsec_")) < minSecret*4/3 {
			return nil, fmt.Errorf("secret %d in the file %s is none: it must be whsec_ and the base64 of %d random "+
				"bytes or more (openssl rand -base64 32)", i+1, file, minSecret)
		}
		all[i] = webhook
	}
	return all, nil
}
