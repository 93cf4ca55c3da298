package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

// healthCommand asks a node whether it is well.
type healthCommand struct {
	Live bool `help:"Ask whether the node should go on running, rather than whether it can do its work."`

	probeSettings
}

// Help says what it is for.
func (c *healthCommand) Help() string {
	return `For probes that execute a command, and for people. It asks the listener of a node on this machine, at
the address that --admin-listen names: give it the settings of the node. It prints what the node says of itself. The
exit code is 0 if all is well, 1 if it is not or nobody answers.

A node is ready when it reaches the store, whose schema is the right one, and has joined its consumer group. It is
alive as long as its operations take turns, whether Kafka and the store are away or not: only --live is a reason
to start it anew.`
}

// healthTimeout is how long the node may take to answer.
const healthTimeout = 2 * time.Second

// Run asks.
func (c *healthCommand) Run(ctx context.Context, w *world) error {
	listen, err := c.values.AdminAddress()
	if err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(listen)
	if err != nil || port == "" || port == "0" {
		return usagef("--admin-listen is %s: it must be the HOST:PORT that the node listens on", shown(listen))
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	client, scheme := &http.Client{Timeout: healthTimeout}, "http"
	if file := c.values.Certificate(); file != "" {
		scheme = "https"
		if client.Transport, err = trusting(file); err != nil {
			return err
		}
	}
	path := "/readyz"
	if c.Live {
		path = "/livez"
	}
	url := scheme + "://" + net.JoinHostPort(host, port) + path
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"?verbose", nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("no node answers at %s: %w", url, err)
	}
	defer func() { _ = response.Body.Close() }() // It was read.
	text, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	if err != nil {
		return fmt.Errorf("read the answer of %s: %w", url, err)
	}
	if _, err := w.stdout.Write(text); err != nil {
		return err
	}
	switch response.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusServiceUnavailable:
		return errLogged // it is on the screen
	default:
		return fmt.Errorf("what answers at %s is no node: status %d", url, response.StatusCode)
	}
}

// trusting returns a transport that takes a server for the right one if it shows exactly the certificate in a file: the
// probe asks for localhost, and the certificate is for the name that others use.
func trusting(file string) (http.RoundTripper, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, usagef("--admin-tls-cert is %s: it must be a file that can be read: %v",
			shown(file), errors.Unwrap(err))
	}
	block, _ := pem.Decode(content)
	if block == nil {
		return nil, usagef("--admin-tls-cert is %s: it must be a PEM file with a certificate", shown(file))
	}
	return &http.Transport{TLSClientConfig: &tls.Config{
		InsecureSkipVerify: true, // in favour of what follows
		VerifyPeerCertificate: func(raw [][]byte, _ [][]*x509.Certificate) error {
			if len(raw) == 0 || !bytes.Equal(raw[0], block.Bytes) {
				return errors.New("the certificate is not the one in --admin-tls-cert")
			}
			return nil
		},
	}}, nil
}
