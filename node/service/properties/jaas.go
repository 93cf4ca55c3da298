package properties

import (
	"maps"
	"slices"
	"strings"
	"unicode"
)

// takeJAAS reads what Java's clients call a JAAS configuration, of which they take one login module:
//
//	org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";
func takeJAAS(c *Client, v Value) error {
	words, complete := jaasWords(v.Text)
	if !complete {
		return v.wrong("is not complete: a quote in it does not end (it is not shown, there is a password in it)")
	}
	if len(words) < 3 || words[len(words)-1] != ";" {
		return v.wrong(`is not of the form MODULE required KEY="VALUE" ...; with the semicolon ` +
			"(it is not shown, there is a password in it)")
	}
	module, options := words[0], words[2:len(words)-1]
	targets := map[string]*Value{}
	switch module[strings.LastIndexByte(module, '.')+1:] {
	case "PlainLoginModule":
		targets["username"], targets["password"] = &c.Username, &c.Password
	case "ScramLoginModule":
		targets["username"], targets["password"] = &c.Username, &c.Password
	case "OAuthBearerLoginModule":
		targets["clientId"], targets["clientSecret"], targets["scope"] = &c.Username, &c.Password, &c.Scope
	default:
		return v.wrong("names a login module that this client does not have: " +
			"it can be PlainLoginModule, ScramLoginModule or OAuthBearerLoginModule")
	}
	for len(options) > 0 {
		if len(options) < 3 || options[1] != "=" || options[2] == "=" || options[2] == ";" {
			return v.wrong(`has an option that is not of the form KEY="VALUE" ` +
				"(it is not shown, there is a password in it)")
		}
		name, value := options[0], options[2]
		options = options[3:]
		target, known := targets[name]
		switch {
		case known:
			*target = Value{value, v.Key, v.Line}
		case name == "tokenauth" && value == "true":
			return v.wrong("asks for a delegation token, which this client does not use: give it a user of its own")
		case name == "tokenauth" || name == "serviceName":
		default:
			return v.wrong("has an option that this client does not know: it can have " +
				strings.Join(slices.Sorted(maps.Keys(targets)), ", ") +
				" (it is not shown, it may be a part of a password)")
		}
	}
	return nil
}

// jaasWords splits text into words, quoted texts, and the signs = and ;. It reports whether all quotes end.
func jaasWords(text string) (words []string, complete bool) {
	runes := []rune(text)
	for i := 0; i < len(runes); {
		switch r := runes[i]; {
		case unicode.IsSpace(r):
			i++
		case r == '=' || r == ';':
			words = append(words, string(r))
			i++
		case r == '"' || r == '\'':
			var word strings.Builder
			i++
			for ; i < len(runes) && runes[i] != r; i++ {
				if runes[i] == '\\' && i+1 < len(runes) {
					i++
				}
				word.WriteRune(runes[i])
			}
			if i == len(runes) {
				return nil, false
			}
			i++
			words = append(words, word.String())
		default:
			start := i
			for i < len(runes) && !unicode.IsSpace(runes[i]) && !strings.ContainsRune(`=;"'`, runes[i]) {
				i++
			}
			words = append(words, string(runes[start:i]))
		}
	}
	return words, true
}
