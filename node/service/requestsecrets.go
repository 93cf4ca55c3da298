package service

import (
	"fmt"
	"strings"

	"chronos/node/credential"
)

// leastSecret is how many bytes a secret of nodes has at least.
const leastSecret = 32

// requestSecrets reads the secrets by which nodes with a journal know each other's requests. A node that serves the API
// without one could not be told from whoever may write to the input topic, and so does not start.
func (s *Settings) requestSecrets(config *Config) error {
	v := &s.requestSecretFile
	switch {
	case v.IsSet && !config.Store.IsJournal():
		return Usagef("%s is set, but %s is no journal in Kafka: it is for requests by HTTP with one", v.Origin,
			s.store.Origin)
	case !v.IsSet && config.Store.IsJournal() && config.API.Listen != "":
		return Usagef("%s is set, %s is a journal in Kafka, and %s is not set: nodes could not tell requests by HTTP "+
			"from what others write to the input topic; make a file with openssl rand -base64 32, and give it to all "+
			"nodes", s.apiListen.Origin, s.store.Origin, v.Origin)
	case !v.IsSet:
		return nil
	}
	content, err := credential.ReadFile(v.Text)
	if err != nil {
		return v.Wrong(err.Error())
	}
	config.RequestSecrets, err = readSecrets(string(content))
	if err != nil {
		return v.Wrong(err.Error())
	}
	return nil
}

// readSecrets reads one secret, or two, each on a line.
func readSecrets(text string) (secrets [][]byte, err error) {
	for line := range strings.Lines(text) {
		secret := strings.TrimSpace(line)
		if secret == "" {
			continue
		}
		if len(secret) < leastSecret {
			return nil, fmt.Errorf("each line must have a secret of %d characters or more, such as openssl rand "+
				"-base64 32 makes", leastSecret)
		}
		secrets = append(secrets, []byte(secret))
	}
	if len(secrets) == 0 || len(secrets) > 2 {
		return nil, fmt.Errorf("it must have one secret, or two while it is replaced, each on a line; it has %d",
			len(secrets))
	}
	return secrets, nil
}
