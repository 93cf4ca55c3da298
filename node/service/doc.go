// Package service is a node and everything around it: it reads settings, opens the ports, prepares them (schema and
// topics), runs the engine until it is told to stop, and turns the engine's events into log lines.
//
// A command is thin over it:
//
//	settings, err := service.Read(service.Run, flags, os.Environ())   // from flags, environment, file
//	config, err := settings.Config()                                  // checked; nothing is touched yet
//	s, err := service.Open(ctx, config, service.Options{Log: log})    // the ports; a server may be away
//	err = s.Run(ctx)                                                  // waits for servers, and runs
//
// A program that embeds a node does the same, and may take messages itself, without HTTP or Kafka: see
// Options.Functions, and its example.
//
// # Settings
//
// Each setting is one row of the table in table.go, and everything else is made from the rows: flags and their help
// (cmd/chronos/flags.go), environment variables, keys of the file, checks, the line that the log begins with, and
// docs/REFERENCE.md. Who adds a setting adds a row, and a field of Settings for its value.
//
// # What is waited for, and what is an error
//
// Servers that are away are waited for, however long: whoever starts a system may start the node first. What
// somebody has to mend first is an error with one sentence that says what: an old schema, and, when the node has
// just started, a refusal that trying again does not change, such as a wrong password. Once a server has answered
// well, a refusal is waited for too, and said: a node that has worked is not stopped by a mistake that is made
// somewhere else and soon undone.
package service
