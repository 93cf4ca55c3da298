package main

import "github.com/alecthomas/kong"

// settingHelp returns what --help says of each setting.
func settingHelp() map[string]string {
	return map[string]string{
		"config": "A YAML file with any of these settings, named as the flags are but without --. A flag " +
			"wins over its environment variable (--hold-time is $CHRONOS_HOLD_TIME), and that over " +
			"the file.",
		"brokers":        "Brokers to find the cluster by. Default localhost:9092.",
		"tls":            "Encrypt connections to Kafka.",
		"tls-ca":         "PEM file with the authorities to trust in place of the system's. Implies --tls.",
		"tls-cert":       "PEM file with the certificate of this client. Implies --tls.",
		"tls-key":        "PEM file with the key to that certificate.",
		"sasl-mechanism": "PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.",
		"sasl-username":  "User name for SASL.",
		"sasl-password": "Password for SASL. Better in the environment than as a flag, which everybody on the " +
			"machine can see.",
		"sasl-password-file":  "File to read that password from.",
		"store":               "postgres://USER@HOST/DATABASE, or sqlite:FILE for a single node.",
		"store-password-file": "File to read the password of the Postgres user from.",
		"pgbouncer": "The URL leads to a PgBouncer that pools transactions. To migrate, use the URL of the " +
			"server itself.",
		"group":        "Consumer group; all nodes of a service share one. Default chronos.",
		"input-topic":  "Where submissions are read from. Default chronos.in.",
		"output-topic": "Where messages appear at their deadline. Default chronos.out.",
		"dead-letter-topic": "Where rejected records go. Default none: they are logged and dropped. For more than " +
			"one input topic see the key routes of the file, a list of input, output and dead-letter.",
		"relay-headers": "Which of the headers chronosMessageId and chronosDeadline stay on the message. Default " +
			"none. All others always do.",
		"epoch-deadlines": "How to read a deadline that is a bare number: reject, seconds or milliseconds since " +
			"1970. Default reject.",
		"create-topics":     "Create topics that do not exist. Without it the node waits for them.",
		"create-partitions": "Partitions of the topics it creates. Default what the broker says.",
		"migrate":           "Create or update the schema at the start. Without it an out-of-date schema is an error.",
		"timing-advance": "How long before its deadline a message is published, for the way to Kafka; or auto, to " +
			"measure that. Default 50ms.",
		"hold-time": "How long a node may hold a message that it is about to publish before others take it for " +
			"dead. Default 5s.",
		"poll-interval":      "How often to look for messages that fall due. Default 100ms.",
		"detection-interval": "How often to look for nodes that have failed. Default 500ms.",
		"lookahead":          "How long before it falls due a message is claimed. Default 250ms.",
		"leave-after": "How long the store may be out of reach before this node leaves its partitions to others. " +
			"Default 10s.",
		"log-level":  "debug, info, warn or error. Default info.",
		"log-format": "text, json, or auto: text on a terminal and json elsewhere. Default auto.",
	}
}

// addHelp gives the settings of all commands their help.
func addHelp(parser *kong.Kong) error {
	help := settingHelp()
	for _, command := range parser.Model.Leaves(false) {
		for _, group := range command.AllFlags(false) {
			for _, flag := range group {
				if settingOf(flag) != nil && flag.Help == "" {
					flag.Help = help[flag.Name]
				}
			}
		}
	}
	return nil
}
