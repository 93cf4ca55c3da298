package kafka

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Remedy returns what somebody has to do about an error, in one sentence. It returns "" for an error that may be gone
// at the next try.
func Remedy(err error) string {
	for _, refusal := range []struct {
		err    error
		remedy string
	}{
		{kerr.SaslAuthenticationFailed, "Kafka refuses the login: set the right --sasl-username, and its password"},
		{kerr.UnsupportedSaslMechanism, "Kafka does not know the login: set another --sasl-mechanism"},
		{kerr.IllegalSaslState, "Kafka does not expect a login here: use another listener, or no --sasl-mechanism"},
		{kerr.TopicAuthorizationFailed, "Kafka denies the topic: grant Read and Describe on the input topics, and " +
			"Write and Describe on the others"},
		{kerr.GroupAuthorizationFailed, "Kafka denies the consumer group: grant Read on the group that --group names"},
		{kerr.ClusterAuthorizationFailed, "Kafka denies it: grant what is missing on the cluster, or create the " +
			"topics by hand, without --create-topics"},
		{kerr.TransactionalIDAuthorizationFailed, "Kafka denies the transactional id: grant Write on it"},
	} {
		if errors.Is(err, refusal.err) {
			return refusal.remedy
		}
	}
	return ""
}
