package service_test

import (
	"fmt"
	"strings"
	"testing"

	"chronos/node/service"
)

// Goal: no setting that is a URL shows a password, in the sentence about a wrong value, in the log at the start, nor in
// what the API shows. Method: all settings whose place holder is URL, with passwords in URLs that are
// well formed and that are not.
func TestURLsWithoutPasswords(t *testing.T) {
	t.Parallel()
	const canary = "c4n4ry"
	var names []string
	for _, row := range service.Table(service.Run) {
		if row.PlaceHolder == "URL" {
			names = append(names, row.Name)
		}
	}
	if len(names) < 3 {
		t.Fatalf("there are only the settings %v", names)
	}
	for _, address := range []string{
		"https://u:" + canary + "@h.example/x", "http://u:" + canary + "@h.example:8443/", "https://u:" + canary + "@",
		"https://u:" + canary + "%zz@h.example/x", "ftp://u:" + canary + "@h/x", "u:" + canary + "@h",
		"https://u:" + canary + "@h.example:port/x", "https://h.example/x?token=" + canary + "&y",
		"postgres://u:" + canary + "@h/d", "postgres//u:" + canary + "@h/d", "https://u:80/" + canary + "@h/x",
	} {
		for _, name := range names {
			flags := map[string]service.Value{}
			set := func(name, value string) { flags[name] = service.FlagValue(name, value) }
			set("store", "sqlite:"+t.TempDir()+"/x.db")
			set("brokers", "b.example:1")
			if name == "sasl-token-url" {
				set("sasl-mechanism", "OAUTHBEARER")
				set("sasl-username", "u")
				set("sasl-password", "p")
			}
			set(name, address)
			settings, err := service.Read(service.Run, flags, nil)
			said := fmt.Sprint(err)
			if err == nil {
				var config service.Config
				config, err = settings.Config()
				said = fmt.Sprint(err)
				if err == nil {
					said = fmt.Sprint(service.Describe(&config), service.Effective(&config))
				}
			}
			if strings.Contains(said, canary) {
				t.Errorf("--%s %s: %s", name, address, said)
			}
		}
	}
}
