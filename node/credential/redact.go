package credential

import (
	"net/url"
	"regexp"
	"strings"
)

// hidden stands in the place of what is not shown.
const hidden = "xxxxx"

// parameters matches a parameter of a URL that may be a password, with its value: of the query or of the fragment.
func parameters() *regexp.Regexp {
	const names = "pass|pwd|secret|token|key|credential|sig|auth|code"
	return regexp.MustCompile(`(?i)([?&;#][^=&;#]*(` + names + `)[^=&;#]*=)[^&;#]*`)
}

// Redact returns the text of a URL as it may be shown: without passwords, in front of the host or as a parameter. The
// text need not be a URL: of one that is not well formed nothing in front of the last @ is shown but the scheme.
func Redact(text string) string {
	text = parameters().ReplaceAllString(text, "${1}"+hidden)
	at := strings.LastIndex(text, "@")
	if at < 0 {
		return text
	}
	scheme, rest, found := strings.Cut(text, "://")
	if !found {
		return hidden + text[at:]
	}
	u, err := url.Parse(text)
	if err == nil && u.User == nil && u.Port() == "" && u.Hostname() != "" {
		return text // the @ is in the path
	}
	if err == nil && u.User != nil {
		if _, has := u.User.Password(); !has {
			return scheme + "://" + hidden + rest[strings.Index(rest, "@"):] // a token, perhaps
		}
		return u.Redacted()
	}
	return scheme + "://" + hidden + text[at:]
}
