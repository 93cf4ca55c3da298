package doctor

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"

	"chronos/node/admin"
)

// listener looks at how the listener of the nodes is protected: at its tokens, their file, and TLS.
func (e *examination) listener(context.Context) (string, error) {
	config := &e.config.Admin
	if config.Listen == "" {
		return "none in these settings", nil
	}
	if config.TokenFile == "" {
		return "for this machine only, without a token", nil
	}
	tokens, err := admin.ReadTokens(config.TokenFile)
	if err != nil {
		return "", err
	}
	host, _, _ := net.SplitHostPort(config.Listen) // the settings were checked
	if ip := net.ParseIP(host); config.CertFile == "" && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		e.find(Warning, "admin-listen", "has tokens, and no TLS",
			"Whoever sees the network sees the tokens, unless something in front of the node encrypts.",
			"Set admin-tls-cert and admin-tls-key, or have a proxy on the same machine do it.")
	}
	if info, err := os.Stat(config.TokenFile); err == nil && info.Mode().Perm()&0o004 != 0 {
		e.find(Warning, "admin-token-file", "can be read by every user of this machine",
			"All of them may do what its tokens allow.", "chmod o-r "+config.TokenFile)
	}
	control := 0
	for _, t := range tokens {
		about := "admin-token-file"
		if t.Name != "" {
			about = "token " + t.Name
		}
		if t.Weak {
			e.find(Warning, about, "is shorter than 16 characters",
				"Nobody counts the attempts: what is short can be guessed.", "Make a new one: openssl rand -base64 24")
		}
		lacks := missing(t.Rights, config.Rights)
		if t.Name != "" && lacks != "" {
			e.find(Note, about, "has a right that no one has here: "+lacks,
				"It may not do that, because admin-allow does not name it.",
				"Have admin-allow name it, or take it from the token.")
		}
		if t.Rights.Control && config.Rights.Control {
			control++
		}
	}
	return fmt.Sprintf("%s, %d of them with control", count(len(tokens), "token"), control), nil
}

// missing names the rights that a token has and the listener does not allow.
func missing(token, allowed admin.Rights) string {
	var lacks []string
	if token.Payload && !allowed.Payload {
		lacks = append(lacks, "payload")
	}
	if token.Control && !allowed.Control {
		lacks = append(lacks, "control")
	}
	return strings.Join(lacks, ", ")
}
