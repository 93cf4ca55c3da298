package doctor

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"chronos/node/admin"
	"chronos/node/api"
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
	e.exposed("admin", config.Listen, config.CertFile, config.TokenFile)
	control := 0
	for _, t := range tokens {
		lacks := missing(t.Rights, config.Rights)
		if t.Name != "" && lacks != "" {
			e.find(Note, "token "+t.Name, "has a right that no one has here: "+lacks,
				"It may not do that, because admin-allow does not name it.",
				"Have admin-allow name it, or take it from the token.")
		}
		if t.Rights.Control && config.Rights.Control {
			control++
		}
	}
	return fmt.Sprintf("%s, %d of them with control", count(len(tokens), "token"), control), nil
}

// api looks at how the API for applications is protected.
func (e *examination) api(context.Context) (string, error) {
	config := &e.config.API
	if config.Listen == "" {
		return "none in these settings", nil
	}
	if config.TokenFile == "" {
		return "for this machine only, without a token", nil
	}
	tokens, err := api.ReadTokens(config.TokenFile)
	if err != nil {
		return "", err
	}
	e.exposed("api", config.Listen, config.CertFile, config.TokenFile)
	return count(len(tokens), "token"), nil
}

// exposed sees whether tokens of a listener can be read by others. name begins the names of its settings.
func (e *examination) exposed(name, listen, certFile, tokenFile string) {
	host, _, _ := net.SplitHostPort(listen) // the settings were checked
	if ip := net.ParseIP(host); certFile == "" && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		e.find(Warning, name+"-listen", "has tokens, and no TLS",
			"Whoever sees the network sees the tokens, unless something in front of the node encrypts.",
			"Set "+name+"-tls-cert and "+name+"-tls-key, or have a proxy on the same machine do it.")
	}
	if info, err := os.Stat(tokenFile); err == nil && info.Mode().Perm()&0o004 != 0 {
		e.find(Warning, name+"-token-file", "can be read by every user of this machine",
			"All of them may do what its tokens allow.", "chmod o-r "+tokenFile)
	}
}

// private sees whether others on this machine may read what waits: a file, or all files of a folder. A folder that is
// closed protects what is in it.
func (e *examination) private(about, path string) {
	const others = 0o077
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&others == 0 {
		return
	}
	if above, err := os.Stat(filepath.Dir(path)); err == nil && above.Mode().Perm()&others == 0 {
		return
	}
	private := "600"
	if info.IsDir() {
		private = "700"
	}
	e.find(Warning, about, fmt.Sprintf("has mode %04o: other users of this machine may read it", info.Mode().Perm()),
		"It has the messages that wait, with their content.", "chmod "+private+" "+path)
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
