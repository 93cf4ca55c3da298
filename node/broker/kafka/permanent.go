package kafka

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Permanent reports whether err is of a kind that waiting does not mend, because somebody has to change a setting, a
// password or a permission, and returns a sentence that says what to do.
func Permanent(err error) (sentence string, is bool) {
	for _, p := range []struct {
		err      error
		sentence string
	}{
		{kerr.SaslAuthenticationFailed, "Kafka refuses the user or the password: check the SASL settings."},
		{
			kerr.UnsupportedSaslMechanism,
			"Kafka does not offer the SASL mechanism: choose one that the brokers have enabled.",
		},
		{kerr.IllegalSaslState, "Kafka does not expect SASL here: check the SASL settings and the port."},
		{
			kerr.TopicAuthorizationFailed,
			"Kafka forbids the user a topic: grant it Read and Describe on the input topics, and Write and Describe " +
				"on the output and dead-letter topics.",
		},
		{kerr.GroupAuthorizationFailed, "Kafka forbids the user the consumer group: grant it Read on the group."},
		{
			kerr.ClusterAuthorizationFailed,
			"Kafka forbids the user an operation on the cluster: grant it IdempotentWrite, or Write on the topics.",
		},
		{kerr.InvalidGroupID, "Kafka does not accept the name of the consumer group: choose another one."},
		{
			kerr.InconsistentGroupProtocol,
			"The consumer group is used by other software, which shares partitions in another way: give Chronos a " +
				"group of its own.",
		},
		{
			kerr.InvalidSessionTimeout,
			"Kafka does not accept the session-timeout: choose one between group.min.session.timeout.ms and " +
				"group.max.session.timeout.ms of the brokers.",
		},
		{errNoTopicIDs, "The brokers know no topic ids, without which Chronos is not safe: use Kafka 3.1 or newer."},
	} {
		if errors.Is(err, p.err) {
			return p.sentence, true
		}
	}
	if unknown := new(x509.UnknownAuthorityError); errors.As(err, unknown) {
		return "The certificate of a Kafka broker is signed by an authority that is not trusted here: " +
			"check the CA file.", true
	}
	if hostname := new(x509.HostnameError); errors.As(err, hostname) {
		return fmt.Sprintf("The certificate of a Kafka broker is not for the name under which it is reached: %v.",
			hostname), true
	}
	if invalid := new(x509.CertificateInvalidError); errors.As(err, invalid) {
		return fmt.Sprintf("The certificate of a Kafka broker is not valid: %v.", invalid), true
	}
	if record := new(tls.RecordHeaderError); errors.As(err, record) {
		return "What answers does not speak TLS: check the port, or do without TLS.", true
	}
	// An alert that the other side sends is of a type that package tls keeps to itself, in an OpError with this name.
	if remote := new(net.OpError); errors.As(err, &remote) && remote.Op == "remote error" {
		return fmt.Sprintf("A Kafka broker has ended the TLS handshake: %v: check the client certificate.", remote.Err),
			true
	}
	// franz-go has no type for what a broker says to a token that it does not accept.
	if err != nil && strings.Contains(err.Error(), "unexpected data in oauth response") {
		return "Kafka refuses the token: it may have expired, or be of an issuer or for an audience that the brokers " +
			"do " +
			"not accept.", true
	}
	return "", false
}

// errNoTopicIDs says that brokers are too old: they do not tell a topic from one of the same name that was deleted.
var errNoTopicIDs = errors.New("the brokers know no topic ids")
