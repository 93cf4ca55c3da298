package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	tclog "github.com/testcontainers/testcontainers-go/log"
)

// dockerBackend runs servers as containers, on the network of the machine that the engine runs on: a broker tells its
// address to others, and so needs the same one inside and outside.
type dockerBackend struct {
	client          *testcontainers.DockerClient
	kafka, postgres string // the images
	servers         []*dockerServer
}

// tryDocker sees that containers can be used. It is called once, before anything else is done with them.
func tryDocker(ctx context.Context) error {
	tclog.SetDefault(tclog.NewNoopLogger()) // it would tell of every step of every container
	b, err := openDocker(ctx)
	if err != nil {
		return err
	}
	return errors.Join(b.reach(ctx), b.close())
}

// openDocker finds an engine that answers and has the images. They can be others: CHRONOS_TEST_KAFKA_IMAGE (with the
// conventions of apache/kafka) and CHRONOS_TEST_POSTGRES_IMAGE (with those of postgres). They are the same as those of
// scripts/with-servers.
func openDocker(ctx context.Context) (*dockerBackend, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	c, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err == nil {
		_, err = c.Ping(ctx, client.PingOptions{})
	}
	if err != nil {
		return nil, fmt.Errorf("find a container engine: none answers at DOCKER_HOST or at the usual places: %s",
			strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	b := &dockerBackend{client: c, kafka: "apache/kafka:4.3.1", postgres: "postgres:17"}
	for _, i := range []struct {
		image    *string
		variable string
	}{{&b.kafka, "CHRONOS_TEST_KAFKA_IMAGE"}, {&b.postgres, "CHRONOS_TEST_POSTGRES_IMAGE"}} {
		if given := os.Getenv(i.variable); given != "" {
			*i.image = given
		}
		if _, err := c.ImageInspect(ctx, *i.image); err != nil {
			_ = c.Close() // nothing was done with it
			return nil, fmt.Errorf("look for the image %s, which docker pull fetches and %s replaces: %w",
				*i.image, i.variable, err)
		}
	}
	return b, nil
}

// reach sees that a container on the network of the engine's machine is on the network of this program. The engine may
// be on another machine, or in a network of its own: then servers would wait on a loopback that nobody here can reach.
// It compares the kernel and the network, as a container sees them.
func (b *dockerBackend) reach(ctx context.Context) error {
	const kernel, network = "/proc/sys/kernel/random/boot_id", "/proc/self/ns/net"
	const inquiry = "cat " + kernel + " && readlink " + network
	here, err := exec.CommandContext(ctx, "sh", "-c", inquiry).Output()
	if err != nil {
		return fmt.Errorf("look at the network of the suite: %w", err)
	}
	there, err := b.output(ctx, testcontainers.ContainerRequest{
		Image: b.kafka, Entrypoint: []string{"sh", "-c", inquiry},
	})
	if err != nil {
		return fmt.Errorf("look at the network of the container engine: %w", err)
	}
	if there != string(here) {
		return errors.New("use the container engine: its containers are on another network than the suite, which " +
			"could not reach their ports; docs/CHAOS.md says how to run it there")
	}
	return nil
}

// output returns what a container prints that ends by itself.
func (b *dockerBackend) output(ctx context.Context, r testcontainers.ContainerRequest) (string, error) {
	file, err := os.CreateTemp("", "chronos-servers-")
	if err != nil {
		return "", fmt.Errorf("make a file for what a container prints: %w", err)
	}
	defer os.Remove(file.Name()) //nolint:errcheck // it is a temporary file
	defer file.Close()           //nolint:errcheck // it is only read
	s, err := b.create(ctx, r, file.Name(), "SIGKILL")
	if err != nil {
		return "", err
	}
	if err := s.Start(ctx); err != nil {
		return "", err
	}
	s.output.Wait()
	text, err := io.ReadAll(file)
	if err != nil {
		return "", fmt.Errorf("read what a container has printed: %w", err)
	}
	return string(text), nil
}

// dockerServer is a server that is a container.
type dockerServer struct {
	client    *testcontainers.DockerClient
	container testcontainers.Container
	id        string
	log       string         // the file
	output    sync.WaitGroup // those who write to it
}

// Start starts the container. What it prints is in the log while it runs, for whoever waits for it in vain.
func (s *dockerServer) Start(ctx context.Context) error {
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open the log of a container: %w", err)
	}
	from, err := s.client.ContainerAttach(ctx, s.id, client.ContainerAttachOptions{
		Stream: true, Stdout: true, Stderr: true,
	})
	if err != nil {
		return errors.Join(fmt.Errorf("read what a container prints: %w", err), log.Close())
	}
	if _, err := s.client.ContainerStart(ctx, s.id, client.ContainerStartOptions{}); err != nil {
		from.Close()
		return errors.Join(fmt.Errorf("start a container: %w", err), log.Close())
	}
	s.output.Go(func() {
		defer log.Close() //nolint:errcheck // a line less is no failure
		defer from.Close()
		_, _ = stdcopy.StdCopy(log, log, from.Reader) // it ends when the container does
	})
	return nil
}

func (s *dockerServer) Kill(ctx context.Context) error {
	_, err := s.client.ContainerKill(ctx, s.id, client.ContainerKillOptions{Signal: "SIGKILL"})
	return err
}

func (s *dockerServer) Stop(ctx context.Context) error {
	seconds := 20
	_, err := s.client.ContainerStop(ctx, s.id, client.ContainerStopOptions{Timeout: &seconds})
	return err
}

func (s *dockerServer) Freeze(ctx context.Context) error {
	_, err := s.client.ContainerPause(ctx, s.id, client.ContainerPauseOptions{})
	return err
}

func (s *dockerServer) Thaw(ctx context.Context) error {
	_, err := s.client.ContainerUnpause(ctx, s.id, client.ContainerUnpauseOptions{})
	return err
}

func (b *dockerBackend) broker(ctx context.Context, spec brokerSpec) (Server, error) {
	env := map[string]string{"CLUSTER_ID": spec.cluster, "KAFKA_HEAP_OPTS": "-Xms128m -Xmx384m"}
	for _, key := range slices.Sorted(maps.Keys(spec.properties)) {
		env["KAFKA_"+strings.ToUpper(strings.ReplaceAll(key, ".", "_"))] = spec.properties[key]
	}
	return b.create(ctx, testcontainers.ContainerRequest{Image: b.kafka, Env: env}, spec.log, "SIGTERM")
}

func (b *dockerBackend) database(ctx context.Context, spec databaseSpec) (Server, error) {
	command := []string{"postgres", "-c", "listen_addresses=127.0.0.1", "-c", "port=" + strconv.Itoa(spec.port)}
	for _, key := range slices.Sorted(maps.Keys(spec.settings)) {
		command = append(command, "-c", key+"="+spec.settings[key])
	}
	return b.create(ctx, testcontainers.ContainerRequest{
		Image: b.postgres, Cmd: command,
		Env: map[string]string{
			"POSTGRES_USER": "chronos", "POSTGRES_PASSWORD": spec.password, "POSTGRES_DB": "postgres",
		},
	}, spec.log, "SIGQUIT")
}

// create makes a container and does not start it. The signal that stops it is its own: an engine older than 23 takes
// none with the request. The label is for people, who may have to remove what a killed suite has left.
func (b *dockerBackend) create(
	ctx context.Context, r testcontainers.ContainerRequest, log, stopSignal string,
) (*dockerServer, error) {
	r.Labels = map[string]string{"chronos-chaos": ""}
	r.ConfigModifier = func(c *container.Config) { c.StopSignal = stopSignal }
	r.HostConfigModifier = func(h *container.HostConfig) { h.NetworkMode = "host" }
	// Nobody would remove a container that the engine makes for a request that was given up.
	ctx = context.WithoutCancel(ctx)
	c, err := testcontainers.GenericContainer(ctx, testcontainers.GenericContainerRequest{ContainerRequest: r})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("create a container of %s: %w", r.Image, err),
			testcontainers.TerminateContainer(c))
	}
	s := &dockerServer{client: b.client, container: c, id: c.GetContainerID(), log: log}
	b.servers = append(b.servers, s)
	return s, nil
}

// close removes the containers with their data.
func (b *dockerBackend) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var errs []error
	for _, s := range b.servers {
		err := s.container.Terminate(ctx, testcontainers.StopTimeout(0))
		if err == nil {
			s.output.Wait() // it ends with the container
		}
		errs = append(errs, err)
	}
	return errors.Join(append(errs, b.client.Close())...)
}
