package service

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/twmb/franz-go/pkg/kerr"

	"chronos/node"
)

// cause says in words why a call to Kafka or to the store failed, for people who have not read the log: a sentence
// without its subject, such as "it refuses connections". The error itself, with addresses and names of users in it, is
// for the log.
func cause(err error) string {
	if err == nil {
		return ""
	}
	if sentence := remedy(err); sentence != "" {
		return strings.TrimSuffix(sentence, ".")
	}
	if sentence := saidByPostgres(err); sentence != "" {
		return sentence
	}
	if sentence := saidByKafka(err); sentence != "" {
		return sentence
	}
	return saidByNetwork(err)
}

// causeOn says in words, with their subject, why something could not be published on a lane: what Kafka did, or "" for
// a callback lane. There Kafka has no part in it, and the error names the receiver.
func causeOn(lane string, err error) string {
	if node.IsCallback(lane) {
		return ""
	}
	text := cause(err)
	if rest, is := strings.CutPrefix(text, "it "); is {
		return "Kafka " + rest
	}
	return text
}

// saidByPostgres returns what a server means that answers with an error.
func saidByPostgres(err error) string {
	var refusal *pgconn.PgError
	if !errors.As(err, &refusal) {
		return ""
	}
	switch refusal.Code {
	case "57P01", "57P02", "57P03":
		return "it is starting or stopping"
	case "57014":
		return "it took too long, and was told to give up"
	case "53300":
		return "it has no connection left for this node: max_connections is too low, or others hold too many"
	case "53100":
		return "its disk is full"
	case "25006":
		return "it is a standby, or read-only, and takes no changes: look where --store leads"
	case "42P01", "42703":
		return "its schema is not the one that this program needs: run chronos migrate up"
	}
	return "Postgres says \"" + refusal.Message + "\" (" + refusal.Code + ")"
}

// saidByKafka returns what a broker means that answers with an error.
func saidByKafka(err error) string {
	var refusal *kerr.Error
	switch {
	case errors.Is(err, kerr.NotEnoughReplicas), errors.Is(err, kerr.NotEnoughReplicasAfterAppend):
		return "a partition has fewer in-sync replicas than min.insync.replicas asks for: a broker is away"
	case errors.Is(err, kerr.UnknownTopicOrPartition), node.KindOf(err) == node.TopicMissing:
		return "there is no such topic: create it, or correct its name in the settings"
	case errors.Is(err, kerr.LeaderNotAvailable), errors.Is(err, kerr.NotLeaderForPartition):
		return "a partition has no leader at the moment"
	case errors.As(err, &refusal):
		return "Kafka says \"" + strings.TrimSuffix(refusal.Description, ".") + "\" (" + refusal.Message + ")"
	case node.KindOf(err) == node.RecordRejected:
		return "Kafka rejects the message: " + oneLine(err)
	}
	return ""
}

// saidByNetwork returns what it means that nobody answers.
func saidByNetwork(err error) string {
	var lookup *net.DNSError
	var network net.Error
	switch {
	case errors.As(err, &lookup):
		return "the name of its host cannot be resolved"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "it refuses connections: it does not run, or does not run there"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "there is no way to its host"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET),
		errors.Is(err, syscall.EPIPE), errors.Is(err, net.ErrClosed):
		return "it has closed the connection"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded),
		errors.As(err, &network) && network.Timeout():
		return "it does not answer in time"
	}
	return inLog
}

// inLog is what saidByNetwork says of an error that it does not know.
const inLog = "the log of the node has the error"
