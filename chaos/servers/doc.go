// Package servers starts the real Kafka and the real Postgres that tests, benchmarks and the chaos suite run against,
// and does to them what operators, power cuts and kernels do: it kills, freezes and stops them, copies and restores
// their data, and promotes a standby.
//
//	s, err := servers.Open(ctx, servers.Config{Logs: dir, Say: os.Stderr})
//	defer s.Close()
//	kafka, err := s.Kafka(ctx, servers.KafkaConfig{Brokers: 3})       // prepared: ports are chosen, data is formatted
//	postgres, err := s.Postgres(ctx, servers.PostgresConfig{})
//	err = kafka.Start(ctx)                                            // all brokers, until the cluster is whole
//	err = postgres.Start(ctx); err = postgres.Ready(ctx, time.Minute)
//	standby, err := s.Standby(ctx, postgres, "standby")               // streams, and is waited for by every commit
//	backup, err := postgres.Backup(ctx)                               // while it runs
//	err = postgres.Kill(ctx); err = postgres.Restore(ctx, backup)     // and it is what it was then
//
// # How to read it
//
//   - servers.go: what a Server is, where servers come from, and everything that belongs to one set of them.
//   - kafka.go: a cluster of brokers in KRaft mode, one or several, each with a listener for every node.
//   - postgres.go: a database server; replica.go: its copies: backups, restores, a synchronous standby.
//   - local.go, process.go: servers as processes of this machine; docker.go: as containers.
//
// # What can be relied on
//
// Everything listens on 127.0.0.1 alone. Ports are chosen before anything starts and never change, so a server that
// was killed comes back where it was. Everything ends with the program that has started it, whatever that ends by:
// processes get SIGKILL from the kernel when their parent is gone, and containers are removed by testcontainers'
// reaper. Data is in /var/tmp, on a disk, because what a file system in memory says about fsync is worth nothing;
// Close removes it. Every wait has a limit.
//
// What installs Kafka and Postgres stays a script, scripts/setup: it runs where there is no Go program yet.
package servers
