package service

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
)

// askRows are the settings that say which node a command asks.
func askRows() []Setting {
	rows := []Setting{
		{
			Name: "admin", PlaceHolder: placeURL,
			Help: "Ask the node whose admin listener is there, and not the store, such as http://127.0.0.1:8080. " +
				"Default the store; for a store that only its node can read, the node at admin-listen; and without a " +
				"store the node there, or the one of \"chronos dev\" at http://" + DefaultAdmin + ".",
			value: func(s *Settings) *Value { return &s.admin },
		},
		{
			Name: "token-file", PlaceHolder: "FILE",
			Help: "File with the token of that listener. Default, for the node at admin-listen, the token in " +
				"admin-token-file, if there is only one.",
			value: func(s *Settings) *Value { return &s.tokenFile },
		},
		{
			Name: "admin-ca", PlaceHolder: "FILE",
			Help: "PEM file with the certificates that it is to be trusted by. Default, for the node at " +
				"admin-listen, exactly that of admin-tls-cert.",
			value: func(s *Settings) *Value { return &s.adminCA },
		},
	}
	for i := range rows {
		rows[i].Group, rows[i].Commands = "node", Ask|Cancel|Probe
	}
	return rows
}

// AdminNode is a node to ask.
type AdminNode struct {
	URL string

	// Token is what to show; "" for nothing.
	Token string

	// CAFile names the certificates to trust the node by, and CertFile the only one that it may show; "" for those of
	// the system.
	CAFile, CertFile string

	// Because says why it is this node that is asked; "" if that was said where the command was given.
	Because string

	// Guessed says that nothing but a default has named the node.
	Guessed bool
}

// Place is where a command asks: the node if there is one, and the store otherwise.
type Place struct {
	Node  *AdminNode
	Store Target

	// Instead is the node that has the store, perhaps, if nobody else can open it; nil if nobody says where it is.
	Instead *AdminNode
}

// Asked returns where to ask. What was said in the nearest place counts: a flag before the environment, and that before
// the file; of two that are equally near the node counts before the store.
func (s *Settings) Asked() (Place, error) {
	if s.admin.IsSet && s.admin.nearness() >= s.store.nearness() {
		node, err := s.AskedNode()
		return Place{Node: node}, err
	}
	if !s.store.IsSet {
		node, err := s.AskedNode()
		return Place{Node: node}, err
	}
	target, err := s.Target()
	if err != nil {
		return Place{}, err
	}
	listens := s.adminListen.IsSet && s.adminListen.Text != adminOff
	switch {
	case listens && target.IsJournal():
		node, err := s.listening(fmt.Sprintf("%s is a journal, of which each node has its part", target.String()))
		return Place{Node: node}, err
	case target.IsJournal():
		return Place{}, Usagef("%s is a journal in Kafka, of which each node has its own part: ask a node, with "+
			"--admin http://%s, or set admin-listen as its nodes have it", target.String(), DefaultAdmin)
	case listens && target.File() != "":
		node, err := s.listening(target.String() + " is in use")
		return Place{Store: target, Instead: node}, err
	}
	return Place{Store: target}, nil
}

// AskedNode returns the node to ask, whatever the store is.
func (s *Settings) AskedNode() (*AdminNode, error) {
	switch {
	case s.admin.IsSet:
		return s.named()
	case s.adminListen.IsSet:
		return s.listening("no --admin is set")
	}
	node := &AdminNode{URL: "http://" + DefaultAdmin, Because: "neither --store nor --admin is set", Guessed: true}
	return node, s.credentialsOf(node)
}

// AdminFlag reports whether a flag of the command names the node.
func (s *Settings) AdminFlag() bool { return s.admin.nearness() == flagNearness }

// named returns the node of the setting admin.
func (s *Settings) named() (*AdminNode, error) {
	at, err := url.Parse(s.admin.Text)
	if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" {
		return nil, s.admin.Wrong("it must be a URL such as http://" + DefaultAdmin)
	}
	node := &AdminNode{URL: strings.TrimSuffix(s.admin.Text, "/")}
	if s.admin.nearness() < flagNearness {
		node.Because = s.admin.Origin + " says so"
	}
	return node, s.credentialsOf(node)
}

// listening returns the node that has the listener of these settings.
func (s *Settings) listening(because string) (*AdminNode, error) {
	if s.adminListen.Text == adminOff {
		return nil, Usagef("%s is off: name the address that the node listens on, or the node with --admin",
			s.adminListen.Origin)
	}
	host, port, err := net.SplitHostPort(s.adminListen.Text)
	if err != nil || port == "" || port == "0" {
		return nil, s.adminListen.Wrong("it must be the HOST:PORT that the node listens on")
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	node := &AdminNode{URL: "http://" + net.JoinHostPort(host, port), CertFile: s.adminTLSCert.Text}
	if node.CertFile != "" {
		node.URL = "https" + strings.TrimPrefix(node.URL, "http")
	}
	if s.adminListen.nearness() < flagNearness {
		node.Because = because + ", and " + s.adminListen.Origin + " is there"
	}
	if err := s.credentialsOf(node); err != nil || node.Token != "" || !s.adminTokenFile.IsSet {
		return node, err
	}
	// Each of several tokens is somebody's own, and the audit names them: a person says which one is theirs.
	if content, err := os.ReadFile(s.adminTokenFile.Text); err == nil {
		if alone := strings.Fields(string(content)); len(alone) == 1 {
			node.Token = alone[0]
		}
	}
	return node, nil
}

// credentialsOf reads the files that are for the node to ask.
func (s *Settings) credentialsOf(node *AdminNode) error {
	if node.CAFile = s.adminCA.Text; node.CAFile != "" {
		node.CertFile = ""
	}
	if !s.tokenFile.IsSet {
		return nil
	}
	content, err := os.ReadFile(s.tokenFile.Text)
	if err != nil {
		return s.tokenFile.Wrong(fmt.Sprintf("it must be a file that can be read: %v",
			cmp.Or(errors.Unwrap(err), err)))
	}
	if node.Token = strings.TrimSpace(string(content)); strings.ContainsAny(node.Token, "\r\n") {
		return s.tokenFile.Wrong("it must hold one token and nothing else, and has several lines: a list of tokens " +
			"is for admin-token-file of the node")
	}
	return nil
}

// flagNearness is the nearness of a flag.
const flagNearness = 3

// nearness says how near to the command a value was set: by its flag, in the environment, in the file, or not at all.
func (v *Value) nearness() int {
	switch {
	case !v.IsSet:
		return 0
	case strings.HasPrefix(v.Origin, "--"):
		return flagNearness
	case strings.HasPrefix(v.Origin, envPrefix):
		return 2
	}
	return 1
}
