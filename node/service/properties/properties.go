package properties

import (
	"bufio"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	java "github.com/magiconair/properties"
)

// A Value is what a file says about one thing.
type Value struct {
	Text string
	Key  string // the key that says it
	Line int
}

// IsSet reports whether the file says anything about it.
func (v *Value) IsSet() bool { return v.Key != "" }

// Client is what a file means for a client.
type Client struct {
	Brokers, ClientID, Group Value

	TLS Value // true or false

	// The authorities, the certificate and its key: names of files, or the PEM texts themselves.
	CA, Certificate, PrivateKey                   Value
	CAInline, CertificateInline, PrivateKeyInline Value

	Mechanism, Username, Password, TokenURL, Scope Value

	// Ignored are the keys that change nothing, in the order of their names.
	Ignored []string
}

// An Error is what is wrong with a key.
type Error struct {
	Line     int // 0 where none is to blame
	Key      string
	Sentence string // begins where the key ends, such as "is not known"
}

// Error returns the sentence.
func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Key + " " + e.Sentence
	}
	return fmt.Sprintf("line %d: %s %s", e.Line, e.Key, e.Sentence)
}

// Parse reads the text of a file.
func Parse(text string) (*Client, error) {
	entries, err := read(text)
	if err != nil {
		return nil, err
	}
	c := &Client{}
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		if err := c.take(entries[key]); err != nil {
			return nil, err
		}
	}
	return c, c.settle(entries)
}

// take deals with one key.
func (c *Client) take(v Value) error {
	rule, known := rules()[v.Key]
	switch {
	case known && v.Text == "" && rule.kind != check:
		return nil // as if it were not there, which is how both dialects have it
	case known:
		return rule.apply(c, v)
	case isIgnored(v.Key):
		c.Ignored = append(c.Ignored, v.Key)
		return nil
	default:
		return v.wrong("is not a property that this client knows" + didYouMean(v.Key))
	}
}

// wrong returns the error about v.
func (v *Value) wrong(sentence string) error { return &Error{v.Line, v.Key, sentence} }

// settle sees that what was said fits together.
func (c *Client) settle(entries map[string]Value) error {
	if protocol, there := entries["security.protocol"]; there {
		sasl := strings.HasPrefix(strings.ToUpper(protocol.Text), "SASL_")
		if !sasl {
			// Java and librdkafka ignore the rest then; a password must not be sent by mistake.
			c.Mechanism, c.Username, c.Password, c.TokenURL, c.Scope = Value{}, Value{}, Value{}, Value{}, Value{}
		} else if !c.Mechanism.IsSet() {
			return protocol.wrong("is " + protocol.Text + ", but there is no sasl.mechanism: " +
				"without one the clients would use GSSAPI, which is not supported")
		}
	} else if c.Mechanism.IsSet() {
		return c.Mechanism.wrong("is set, but security.protocol is not: it must be SASL_SSL, or SASL_PLAINTEXT")
	}
	for _, store := range []struct{ location, kind, advice string }{
		{"ssl.truststore.location", "ssl.truststore.type", noJKS},
		{"ssl.keystore.location", "ssl.keystore.type", noKeyStore},
	} {
		// Without a type it is Java's own format, whatever the file is called.
		if v, there := entries[store.location]; there && entries[store.kind].Text == "" {
			return v.wrong("is set, but " + store.kind + " is not: the store would be in Java's own format, and " +
				store.advice)
		}
	}
	if c.TLS.Text != "true" {
		c.CA, c.Certificate, c.PrivateKey = Value{}, Value{}, Value{}
		c.CAInline, c.CertificateInline, c.PrivateKeyInline = Value{}, Value{}, Value{}
	}
	return nil
}

// read returns the entries of a file by their keys.
func read(text string) (map[string]Value, error) {
	plain := readPlain(text)
	var ofJava, ofLibrdkafka []Value
	for _, key := range slices.Sorted(maps.Keys(plain)) {
		switch v := plain[key]; {
		case isJava(key):
			ofJava = append(ofJava, v)
		case isLibrdkafka(key):
			ofLibrdkafka = append(ofLibrdkafka, v)
		}
	}
	switch {
	case len(ofJava) > 0 && len(ofLibrdkafka) > 0:
		return nil, ofJava[0].wrong("is a property of Java's clients, and " + ofLibrdkafka[0].Key +
			" is one of librdkafka: a file can have those of one of them")
	case len(ofLibrdkafka) > 0:
		return plain, nil
	}
	loader := java.Loader{Encoding: java.UTF8, DisableExpansion: true}
	parsed, err := loader.LoadBytes([]byte(text))
	if err != nil {
		// The error of the library may quote the line.
		return nil, &Error{0, "the file", "is not a properties file: there is an escape in it that is not complete"}
	}
	entries := map[string]Value{}
	for _, key := range parsed.Keys() {
		value, _ := parsed.Get(key)
		entries[key] = Value{strings.TrimSpace(value), key, plain[key].Line}
	}
	return entries, nil
}

// readPlain reads the lines of a file as librdkafka does.
func readPlain(text string) map[string]Value {
	entries := map[string]Value{}
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, len(text)+1)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' || line[0] == '!' {
			continue
		}
		// Java's separators are more; this is only about finding out whose file it is, and about lines.
		end := strings.IndexAny(line, "=: \t")
		if end < 0 {
			end = len(line)
		}
		value := strings.TrimLeft(line[end:], " \t")
		value = strings.TrimSpace(strings.TrimPrefix(strings.TrimPrefix(value, "="), ":"))
		entries[line[:end]] = Value{value, line[:end], n} // the last one of a name counts
	}
	return entries
}

// pem returns PEM text with its lines as they should be. In a property they may be one line, with spaces or the two
// characters \n between its parts.
func pem(text string) string {
	text = strings.ReplaceAll(text, `\n`, "\n")
	block := regexp.MustCompile(`(?s)-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END ([A-Z0-9 ]+)-----`)
	var out strings.Builder
	for _, match := range block.FindAllStringSubmatch(text, -1) {
		body := strings.Join(strings.Fields(match[2]), "")
		fmt.Fprintf(&out, "-----BEGIN %s-----\n", match[1])
		for len(body) > 64 {
			out.WriteString(body[:64] + "\n")
			body = body[64:]
		}
		fmt.Fprintf(&out, "%s\n-----END %s-----\n", body, match[3])
	}
	return out.String()
}
