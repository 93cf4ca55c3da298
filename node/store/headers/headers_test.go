package headers_test

import (
	"bytes"
	"encoding/json"
	"io"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"chronos/node"
	"chronos/node/store/headers"
)

// forms are headers and the one JSON form of each, as the package comment describes it.
func forms() []form {
	return []form{
		{"no headers", nil, `[]`},
		{"text", list("name", []byte("text")), `[{"name":"text"}]`},
		{"empty value", list("name", []byte{}), `[{"name":""}]`},
		{"null value", list("name", nil), `[{"name":null}]`},
		{"binary value", list("name", []byte{0xff, 0}), `[{"name":{"base64":"/wA="}}]`},
		{"value with NUL", list("name", []byte("a\x00b")), `[{"name":{"base64":"YQBi"}}]`},
		{"empty name", list("", []byte("text")), `[{"":"text"}]`},
		{"empty name, null value", list("", nil), `[{"":null}]`},
		{"empty name, binary value", list("", []byte{0xff}), `[{"":{"base64":"/w=="}}]`},
		{
			"binary name", list("\xff", []byte("text")),
			`[{"":{"nameBase64":"/w==","base64":"dGV4dA=="}}]`,
		},
		{
			"binary name, null value", list("\xff", nil),
			`[{"":{"nameBase64":"/w==","base64":null}}]`,
		},
		{
			"binary name, empty value", list("\xff", []byte{}),
			`[{"":{"nameBase64":"/w==","base64":""}}]`,
		},
		{
			"name with NUL", list("a\x00b", []byte{0xff}),
			`[{"":{"nameBase64":"YQBi","base64":"/w=="}}]`,
		},
		{"names of the form", list("base64", []byte("x"), "nameBase64", nil), `[{"base64":"x"},{"nameBase64":null}]`},
		{
			"repeated names keep their order",
			list("b", []byte("1"), "a", []byte("2"), "b", nil, "b", []byte("1")),
			`[{"b":"1"},{"a":"2"},{"b":null},{"b":"1"}]`,
		},
		{
			"nothing is escaped that need not be",
			list(`q"\ <&>'`, []byte("é𐍈/\t\u007f\ufffd")),
			`[{"q\"\\ <&>'":"é𐍈/\t` + "\u007f\ufffd" + `"}]`,
		},
		{"text that looks like JSON", list("n", []byte(`{"base64":"/w=="}`)), `[{"n":"{\"base64\":\"/w==\"}"}]`},
	}
}

type form struct {
	name    string
	headers []node.Header
	json    string
}

// TestForms checks both directions on every kind of header.
func TestForms(t *testing.T) {
	for _, f := range forms() {
		t.Run(f.name, func(t *testing.T) {
			if got := headers.Encode(f.headers); string(got) != f.json {
				t.Errorf("Encode(%q) = %s, want %s", f.headers, got, f.json)
			}
			got, err := headers.Decode([]byte(f.json))
			if err != nil || !reflect.DeepEqual(got, f.headers) {
				t.Errorf("Decode(%s) = %q, %v, want %q", f.json, got, err, f.headers)
			}
		})
	}
}

// TestEmptyListIsNull checks that an empty list of headers is written like none.
func TestEmptyListIsNull(t *testing.T) {
	if got := headers.Encode([]node.Header{}); string(got) != "[]" {
		t.Errorf("Encode of an empty list = %s", got)
	}
}

// TestDecodeAcceptsOtherSpellings checks that Decode reads what databases make of the form: jsonb puts spaces
// between and reorders keys, and other writers escape more.
func TestDecodeAcceptsOtherSpellings(t *testing.T) {
	for text, want := range map[string][]node.Header{
		` [ ] `: nil,
		`[{"a": "1"}, {"b": null}, {"c": {"base64": "/w=="}}]`:  list("a", []byte("1"), "b", nil, "c", []byte{0xff}),
		"[\n\t{\"a\" : \"1\"}\r\n]":                             list("a", []byte("1")),
		`[{"": {"base64": "dGV4dA==", "nameBase64": "/w=="}}]`:  list("\xff", []byte("text")),
		`[{"\u0061\/": "\u003cb\u003e \ud800\udf48 \u00e9\b"}]`: list("a/", []byte("<b> 𐍈 é\b")),
	} {
		got, err := headers.Decode([]byte(text))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("Decode(%s) = %q, %v, want %q", text, got, err, want)
		}
	}
}

// TestDecodeRefuses checks that what Encode cannot have written is an error and no headers.
func TestDecodeRefuses(t *testing.T) {
	for _, text := range []string{
		``, ` `, `null`, `{}`, `"a"`, `1`, `[`, `[]]`, `[1]`, `[null]`, `[{}]`, `[{"a":"1","b":"2"}]`,
		`[{"a":1}]`, `[{"a":true}]`, `[{"a":[]}]`, `[{"a":{}}]`, `[{"a":{"base64":null}}]`,
		`[{"a":{"base64":1}}]`, `[{"a":{"base64":"?"}}]`, `[{"a":{"base64":"YQ==","c":"d"}}]`,
		`[{"a":{"nameBase64":"YQ==","base64":"YQ=="}}]`, `[{"":{"nameBase64":"YQ=="}}]`,
		`[{"":{"nameBase64":null,"base64":"YQ=="}}]`, `[{"":{"nameBase64":"?","base64":"YQ=="}}]`,
		`[{"":{"nameBase64":"YQ==","base64":"YQ==","c":"d"}}]`, "[{\"a\":\"\xff\"}]",
	} {
		if got, err := headers.Decode([]byte(text)); err == nil || got != nil {
			t.Errorf("Decode(%s) = %q, %v, want an error alone", text, got, err)
		}
	}
}

// FuzzRoundTrip checks that any two headers survive, and that what they are written as is JSON which jsonb takes.
func FuzzRoundTrip(f *testing.F) {
	for _, seed := range forms() {
		for _, h := range seed.headers {
			f.Add(h.Name, h.Value, h.Value == nil, h.Name, []byte("second"), false)
		}
	}
	f.Fuzz(func(t *testing.T, name1 string, value1 []byte, null1 bool, name2 string, value2 []byte, null2 bool) {
		if value1 == nil {
			value1 = []byte{}
		}
		if value2 == nil {
			value2 = []byte{}
		}
		if null1 {
			value1 = nil
		}
		if null2 {
			value2 = nil
		}
		want := list(name1, value1, name2, value2)
		encoded := headers.Encode(want)
		if why := refusedByJSONB(encoded); why != "" {
			t.Errorf("%q: %s", encoded, why)
		}
		got, err := headers.Decode(encoded)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("Decode(%q) = %q, %v, want %q", encoded, got, err, want)
		}
	})
}

// refusedByJSONB returns why a jsonb column would not take data, empty when it would.
func refusedByJSONB(data []byte) string {
	if !utf8.Valid(data) {
		return "not UTF-8"
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	for {
		token, err := decoder.Token()
		if err == io.EOF {
			return ""
		}
		if err != nil {
			return err.Error()
		}
		if text, ok := token.(string); ok && strings.ContainsRune(text, 0) {
			return "it holds a NUL"
		}
	}
}

// TestPlain checks that typical headers, as Encode and as jsonb write them, are read as what they are without a look at
// what JSON there may be else, and that a value may have braces without end.
func TestPlain(t *testing.T) {
	encoded := headers.Encode(typical())
	spaced := bytes.ReplaceAll(bytes.ReplaceAll(encoded, []byte(`":`), []byte(`": `)), []byte("},"), []byte("}, "))
	for _, text := range [][]byte{encoded, spaced} {
		if got, plain := headers.DecodePlain(text); !plain || !reflect.DeepEqual(got, typical()) {
			t.Errorf("%s is read as %q, plain: %v", text, got, plain)
		}
	}
	braces := list("a", bytes.Repeat([]byte("{"), 1000))
	got, plain := headers.DecodePlain(headers.Encode(braces))
	if !plain || !reflect.DeepEqual(got, braces) || cap(got) > 16 {
		t.Errorf("room for %d headers, plain: %v", cap(got), plain)
	}
}

// FuzzDecode checks that Decode never panics, that whatever it accepts means one list of headers, and that what it
// reads as plain is what it would be read as without that.
func FuzzDecode(f *testing.F) {
	for _, seed := range forms() {
		f.Add([]byte(seed.json))
	}
	for _, seed := range []string{
		`[{"a": "1"}, {"b": null}]`, `[{"a":"1"},]`, `[{"a":"1"}{"b":"2"}]`, `[{"a":"1","b":"2"}]`, `[{"a":"1"}] x`,
		`[{"a":nul}]`, `[{"a":nullx}]`, `[{"a":"1"`, `[{"a`, `[,]`, ` [ ] `, `[{"a" "1"}]`, `[{"":""}]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if got, plain := headers.DecodePlain(data); plain {
			if want, err := headers.DecodeAny(data); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%q is plain %q, and otherwise %q, %v", data, got, want, err)
			}
		}
		got, err := headers.Decode(data)
		if err != nil {
			if got != nil {
				t.Errorf("Decode(%q) = %q and an error", data, got)
			}
			return
		}
		again, err := headers.Decode(headers.Encode(got))
		if err != nil || !reflect.DeepEqual(again, got) {
			t.Errorf("Decode(%q) = %q, but after Encode %q, %v", data, got, again, err)
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	for b.Loop() {
		headers.Encode(typical())
	}
}

func BenchmarkDecode(b *testing.B) {
	encoded := headers.Encode(typical())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := headers.Decode(encoded); err != nil {
			b.Fatal(err)
		}
	}
}

// typical returns the headers of an ordinary record: a content type, a trace, a source.
func typical() []node.Header {
	return list(
		"content-type", []byte("application/json"),
		"traceparent", []byte("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
		"source", []byte("orders"),
	)
}

// list makes headers of names and values in turn.
func list(pairs ...any) []node.Header {
	var list []node.Header
	for i := 0; i < len(pairs); i += 2 {
		h := node.Header{Name: pairs[i].(string)}
		if value, ok := pairs[i+1].([]byte); ok {
			h.Value = value
		}
		list = append(list, h)
	}
	return list
}
