package properties

import (
	"maps"
	"slices"
	"strings"
)

// rule is what a key means.
type rule struct {
	kind   kind
	target func(*Client) *Value           // of set and inline
	check  func(c *Client, v Value) error // of check
	java   bool                           // only Java knows the key
	rdk    bool                           // only librdkafka does
	named  map[string]string              // of oneOf: what the allowed values mean to the target; "" is refused
	why    func(v Value) string           // of oneOf and refuse: what to do instead
}

// kind is how a rule is applied.
type kind int

const (
	set    kind = iota // the value is that of the target
	inline             // the value is a PEM text
	check              // a function looks at it
	oneOf              // the value is one of those that are named, without regard to case
	refuse             // this client cannot do it
)

// apply applies the rule to a value.
func (r *rule) apply(c *Client, v Value) error {
	switch r.kind {
	case set:
		*r.target(c) = v
	case inline:
		v.Text = pem(v.Text)
		if v.Text == "" {
			return v.wrong("holds no PEM text: it must have -----BEGIN and -----END")
		}
		*r.target(c) = v
	case check:
		return r.check(c, v)
	case oneOf:
		meaning, allowed := r.named[strings.ToLower(v.Text)]
		if !allowed {
			return v.wrong(r.why(v))
		}
		if r.target != nil {
			v.Text = meaning
			*r.target(c) = v
		}
	case refuse:
		return v.wrong(r.why(v))
	}
	return nil
}

// always returns a function that says the same of all values.
func always(sentence string) func(Value) string { return func(Value) string { return sentence } }

// is returns a function that says of a value, which is no secret, that it cannot be.
func is(sentence string) func(Value) string {
	return func(v Value) string { return "is " + v.Text + ": " + sentence }
}

const (
	noJKS = "this client reads PEM files only. Write the authorities to one, such as by " +
		"keytool -exportcert -rfc -keystore STORE -alias ALIAS > ca.pem, and set ssl.truststore.type=PEM"
	noKeyStore = "this client reads PEM files only. Write certificate and key to one, such as by " +
		"openssl pkcs12 -in STORE.p12 -nodes -out client.pem (a JKS store becomes a PKCS12 one by " +
		"keytool -importkeystore -deststoretype PKCS12), and set ssl.keystore.type=PEM"
	noKeyPassword = "is set, but this client reads no encrypted keys: write the key without a password " +
		"(openssl pkey -in KEY -out PLAIN), in a file that only Chronos may read"
	noExtensions = "is set, but this client sends no SASL extensions: leave it out, or use another mechanism"
)

// rules returns what the keys mean that say how to reach a cluster and who we are.
func rules() map[string]rule {
	all := map[string]rule{}
	for _, some := range []map[string]rule{connectionRules(), tlsRules(), saslRules(), tokenRules()} {
		maps.Copy(all, some)
	}
	return all
}

func connectionRules() map[string]rule {
	brokers := func(c *Client) *Value { return &c.Brokers }
	return map[string]rule{
		"bootstrap.servers":    {target: brokers},
		"metadata.broker.list": {target: brokers, rdk: true},
		"client.id":            {target: func(c *Client) *Value { return &c.ClientID }},
		"group.id":             {target: func(c *Client) *Value { return &c.Group }},
		"security.protocol": {
			kind: oneOf, target: func(c *Client) *Value { return &c.TLS },
			named: map[string]string{
				"plaintext": "false", "ssl": "true", "sasl_plaintext": "false", "sasl_ssl": "true",
			},
			why: is("it must be PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"),
		},
		"config.providers": {kind: refuse, why: always("is set, but this client has no providers of values: " +
			"write the values themselves into the file, and the password into one for --sasl-password-file")},
		"security.providers": {kind: refuse, why: always("is set, but this client is not written in Java: leave it " +
			"out")},
	}
}

func tlsRules() map[string]rule {
	ca := func(c *Client) *Value { return &c.CA }
	certificate := func(c *Client) *Value { return &c.Certificate }
	key := func(c *Client) *Value { return &c.PrivateKey }
	caInline := func(c *Client) *Value { return &c.CAInline }
	certificateInline := func(c *Client) *Value { return &c.CertificateInline }
	keyInline := func(c *Client) *Value { return &c.PrivateKeyInline }
	isPEM := map[string]string{"pem": "PEM"}
	return map[string]rule{
		"ssl.truststore.type":         {kind: oneOf, named: isPEM, why: is(noJKS), java: true},
		"ssl.truststore.location":     {kind: check, check: trustStore, java: true},
		"ssl.truststore.certificates": {kind: inline, target: caInline, java: true},
		"ssl.truststore.password": {
			kind: refuse, why: always("is set, but a PEM file has no password: " + noJKS),
			java: true,
		},
		"ssl.keystore.type":     {kind: oneOf, named: isPEM, why: is(noKeyStore), java: true},
		"ssl.keystore.location": {kind: check, check: keyStore},
		"ssl.keystore.password": {kind: refuse, why: always("is set, but a PEM file has no password: " +
			noKeyStore)},
		"ssl.keystore.certificate.chain": {
			kind: inline, target: certificateInline, java: true,
		},
		"ssl.keystore.key": {kind: inline, target: keyInline, java: true},
		"ssl.key.password": {kind: refuse, why: always(noKeyPassword)},

		"ssl.ca.location":          {target: ca, rdk: true},
		"ssl.ca.pem":               {kind: inline, target: caInline, rdk: true},
		"ssl.certificate.location": {target: certificate, rdk: true},
		"ssl.certificate.pem":      {kind: inline, target: certificateInline, rdk: true},
		"ssl.key.location":         {target: key, rdk: true},
		"ssl.key.pem":              {kind: inline, target: keyInline, rdk: true},

		"ssl.endpoint.identification.algorithm": {
			kind: check, check: func(_ *Client, v Value) error {
				if strings.EqualFold(v.Text, "https") {
					return nil
				}
				return v.wrong("is " + `"` + v.Text + `"` + ": this client always checks that a broker's certificate " +
					"is for " +
					"the name that it is reached by; set it to https, and give the brokers certificates for their " +
					"names")
			},
		},
		"enable.ssl.certificate.verification": {
			kind: oneOf, named: map[string]string{"true": "true"}, rdk: true,
			why: is("this client always checks the brokers' certificates; set ssl.ca.location to who has signed them"),
		},
	}
}

// trustStore takes the file of authorities, whose type is PEM if another key says so: Java's own is the default.
func trustStore(c *Client, v Value) error {
	c.CA = v
	return nil
}

// keyStore takes the file that has both the certificate and its key.
func keyStore(c *Client, v Value) error {
	c.Certificate, c.PrivateKey = v, v
	return nil
}

func saslRules() map[string]rule {
	mechanism := rule{
		kind: oneOf, target: func(c *Client) *Value { return &c.Mechanism },
		named: map[string]string{
			"plain": "PLAIN", "scram-sha-256": "SCRAM-SHA-256", "scram-sha-512": "SCRAM-SHA-512",
			"oauthbearer": "OAUTHBEARER",
		},
		why: is("it must be PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER"),
	}
	mechanisms := mechanism
	mechanisms.rdk = true
	return map[string]rule{
		"sasl.mechanism":   mechanism,
		"sasl.mechanisms":  mechanisms,
		"sasl.username":    {target: func(c *Client) *Value { return &c.Username }, rdk: true},
		"sasl.password":    {target: func(c *Client) *Value { return &c.Password }, rdk: true},
		"sasl.jaas.config": {kind: check, check: takeJAAS, java: true},
		"sasl.login.callback.handler.class": {
			kind: check, java: true, check: func(_ *Client, v Value) error {
				if v.Text == "" || strings.HasSuffix(v.Text, ".oauthbearer.OAuthBearerLoginCallbackHandler") ||
					strings.HasSuffix(v.Text, ".oauthbearer.secured.OAuthBearerLoginCallbackHandler") {
					return nil
				}
				return v.wrong("is " + v.Text + ": this client runs no Java classes; where it fetches a token, have " +
					"another " +
					"program write that to a file, and set --sasl-token-file")
			},
		},
	}
}

func tokenRules() map[string]rule {
	id := func(c *Client) *Value { return &c.Username }
	secret := func(c *Client) *Value { return &c.Password }
	scope := func(c *Client) *Value { return &c.Scope }
	url := func(c *Client) *Value { return &c.TokenURL }
	return map[string]rule{
		"sasl.oauthbearer.token.endpoint.url":               {target: url},
		"sasl.oauthbearer.scope":                            {target: scope},
		"sasl.oauthbearer.client.id":                        {target: id, rdk: true},
		"sasl.oauthbearer.client.secret":                    {target: secret, rdk: true},
		"sasl.oauthbearer.client.credentials.client.id":     {target: id},
		"sasl.oauthbearer.client.credentials.client.secret": {target: secret},
		"sasl.oauthbearer.method": {
			kind: oneOf, named: map[string]string{"oidc": "oidc"}, rdk: true,
			why: is("it must be oidc, with a token endpoint; for tokens from elsewhere set --sasl-token-file"),
		},
		"sasl.oauthbearer.jwt.retriever.class": {
			kind: oneOf, java: true, named: map[string]string{
				"org.apache.kafka.common.security.oauthbearer.defaultjwtretriever":           "",
				"org.apache.kafka.common.security.oauthbearer.clientcredentialsjwtretriever": "",
			},
			why: is("it must be ClientCredentialsJwtRetriever; for tokens from elsewhere set --sasl-token-file"),
		},
		"enable.sasl.oauthbearer.unsecure.jwt": {
			kind: oneOf, named: map[string]string{"false": "false"}, rdk: true,
			why: is("this client makes no tokens of its own"),
		},
		"sasl.oauthbearer.config": {
			kind: refuse, why: always("is set, but this client makes no tokens of its own"),
			rdk: true,
		},
		"sasl.oauthbearer.extensions": {kind: refuse, why: always(noExtensions)},
		"sasl.oauthbearer.assertion.algorithm": {
			kind: refuse, why: always("is set, but this client gets tokens by client credentials only: " +
				"have another program write the token to a file, and set --sasl-token-file"),
		},
	}
}

// isJava reports whether only Java's clients know a key.
func isJava(key string) bool { return rules()[key].java }

// isLibrdkafka reports whether only librdkafka knows a key.
func isLibrdkafka(key string) bool { return rules()[key].rdk }

// didYouMean returns a question that names the known key closest to one that is not known, if one is close.
func didYouMean(key string) string {
	for known := range rules() {
		if squeezed(known) == squeezed(key) {
			return "; did you mean " + known + "?"
		}
	}
	var near []string
	for known := range rules() {
		if len(known) > 5 && oneApart(known, key) {
			near = append(near, known)
		}
	}
	if len(near) > 0 {
		return "; did you mean " + slices.Min(near) + "?"
	}
	return ": take it out of the file, or correct its name"
}

// squeezed returns a key without what people mix up in it.
func squeezed(key string) string {
	return strings.NewReplacer(".", "", "_", "", "-", "").Replace(strings.ToLower(key))
}

// oneApart reports whether a letter added, taken away or replaced makes one of the other.
func oneApart(a, b string) bool {
	if len(a) < len(b) {
		a, b = b, a
	}
	if len(a)-len(b) > 1 {
		return false
	}
	i := 0
	for i < len(b) && a[i] == b[i] {
		i++
	}
	if len(a) == len(b) {
		return i < len(b) && a[i+1:] == b[i+1:]
	}
	return a[i+1:] == b[i:]
}
