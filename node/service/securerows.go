package service

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"chronos/node"
	"chronos/node/broker/kafka"
	"chronos/node/listener"
)

// tokenRows are the settings for tokens, and for files that other clients have.
func tokenRows() []Setting {
	return []Setting{
		{
			Name: "sasl-token-file", PlaceHolder: "FILE",
			Help: "File with the token for OAUTHBEARER, which another program keeps fresh. It is read at each " +
				"connection.",
			value: func(s *Settings) *Value { return &s.saslTokenFile },
		},
		{
			Name: "sasl-token-url", PlaceHolder: placeURL,
			Help: "Where to get that token by the OAuth 2 client credentials of --sasl-username and " +
				"--sasl-password-file: an https address.",
			value: func(s *Settings) *Value { return &s.saslTokenURL },
		},
		{
			Name: "sasl-scope", PlaceHolder: "SCOPE,...", Help: "The scopes to ask for there. Default none.",
			value: func(s *Settings) *Value { return &s.saslScope },
		},
		{
			Name: "kafka-properties", PlaceHolder: "FILE",
			Help: "Configuration of a Kafka client as Java's clients and librdkafka have it, for all of the above " +
				"that " +
				"is not set otherwise. A key in it that this client does not know is an error.",
			value: func(s *Settings) *Value { return &s.kafkaProperties },
		},
	}
}

// limitRows are the limits on submissions.
func limitRows() []Setting {
	rows := []Setting{
		{
			Name: "max-delay", PlaceHolder: "TIME", field: "MaxDelay", form: form{time: true}, Default: "0s",
			Help: "How far ahead a deadline may lie when its record is taken in; what lies further is rejected. So " +
				"is a series that begins further in the past, if all that was missed of it is to come out. 0s is no " +
				"limit.",
			Allowed: "0s or more", value: func(s *Settings) *Value { return &s.maxDelay },
			logged: loggedAlways, inForce: func(c *Config) any { return c.Node.Limits.MaxDelay.String() },
		},
		{
			Name: "max-missed", PlaceHolder: "N", field: "MaxMissed", Default: strconv.Itoa(node.DefaultMaxMissed),
			Help: "How many occurrences of a series come out late, if all that was missed of it is to come out " +
				"(chronosMissed: all): the latest N. Those before them are passed over. 0 is no limit.",
			Allowed: fmt.Sprintf("0 to %d", math.MaxInt32),
			value:   func(s *Settings) *Value { return &s.maxMissed },
		},
		{
			Name: "max-message-bytes", PlaceHolder: "N", field: "MaxBytes",
			Help:    "The most bytes that key, value and headers of a record may have together.",
			Default: fmt.Sprint(node.MaxMessageBytes), Allowed: fmt.Sprintf("256 to %d", node.MaxMessageBytes),
			value: func(s *Settings) *Value { return &s.maxBytes },
		},
		{
			Name: "max-headers", PlaceHolder: "N", field: "MaxHeaders", Default: "0",
			Help:    "The most headers that a record may have, those of Chronos included. 0 is no limit.",
			Allowed: fmt.Sprintf("2 to %d, or 0", math.MaxInt32),
			value:   func(s *Settings) *Value { return &s.maxHeaders },
		},
		{
			Name: "max-header-bytes", PlaceHolder: "N", field: "MaxHeaderBytes", Default: "0",
			Help:    "The most bytes that the names and values of these may have together. 0 is no limit.",
			Allowed: fmt.Sprintf("256 to %d, or 0", node.MaxMessageBytes),
			value:   func(s *Settings) *Value { return &s.maxHeaderBytes },
		},
		{
			Name: "fetch-memory", PlaceHolder: "N", Default: strconv.Itoa(kafka.DefaultFetchMemory),
			Help: "The most bytes that records may have in memory that were fetched from Kafka and are not taken in " +
				"yet, decompressed: their own, and 200 for each record and 40 for each header. A batch of records " +
				"that alone has more comes by itself. What is sent uncompressed is bounded by two fetches from each " +
				"broker, of 4 MiB or as many bytes as this, if that is less.",
			Allowed: allowedMemory(), value: func(s *Settings) *Value { return &s.fetchMemory },
		},
		{
			Name: "batch-memory", PlaceHolder: "N", Default: strconv.Itoa(kafka.DefaultBatchMemory),
			Help: "The most bytes that one batch of records may have in memory, decompressed, counted alike. A " +
				"larger one stops its partition, and the log says how it gets going again. While one is read, a " +
				"node takes some three times as much.",
			Allowed: allowedMemory(), value: func(s *Settings) *Value { return &s.batchMemory },
		},
		{
			Name: "http-memory", PlaceHolder: "N", Default: strconv.Itoa(listener.DefaultMemory),
			Help: fmt.Sprintf("The most bytes that the bodies of requests under way may take in memory, on each "+
				"listener for HTTP: a byte of a body counts as %d. One token, or one address where there are no "+
				"tokens, has a quarter of it, if there are others. More is answered with 429. A body that alone has "+
				"more than a quarter is let in by itself.", listener.BodyCost),
			Allowed: allowedMemory(), value: func(s *Settings) *Value { return &s.httpMemory },
		},
	}
	for i := range rows {
		rows[i].Group, rows[i].Commands = "limits", Run
		if strings.HasPrefix(rows[i].Name, "max-") { // send refuses what nodes would reject
			rows[i].Reads = Submit | Client
		}
	}
	return rows
}

// limits sets the limits of config.
func (s *Settings) limits(config *node.Config) error {
	if err := s.maxDelay.Duration(&config.Limits.MaxDelay); err != nil {
		return err
	}
	for _, number := range []struct {
		setting *Value
		target  *int
	}{
		{&s.maxBytes, &config.Limits.MaxBytes},
		{&s.maxMissed, &config.Limits.MaxMissed},
		{&s.maxHeaders, &config.Limits.MaxHeaders},
		{&s.maxHeaderBytes, &config.Limits.MaxHeaderBytes},
	} {
		if v := number.setting; v.IsSet {
			n, err := v.number(math.MaxInt32)
			if err != nil {
				return err
			}
			*number.target = n
		}
	}
	return nil
}

// minMemory is the least memory for records: that of the largest batch that topics with default settings take.
const minMemory = 1 << 20

// allowedMemory says what may be set.
func allowedMemory() string { return fmt.Sprintf("%d to %d", minMemory, math.MaxInt32) }

// memory sets how much memory records may have that come from Kafka, and bodies of requests by HTTP.
func (s *Settings) memory(config *Config) error {
	for _, number := range []struct {
		setting *Value
		target  *int
	}{
		{&s.fetchMemory, &config.FetchMemory},
		{&s.batchMemory, &config.BatchMemory},
		{&s.httpMemory, &config.HTTPMemory},
	} {
		if v := number.setting; v.IsSet {
			n, err := v.number(math.MaxInt32)
			if err != nil || n < minMemory {
				return v.Wrong("it must be a number from " + allowedMemory())
			}
			*number.target = n
		}
	}
	return nil
}
