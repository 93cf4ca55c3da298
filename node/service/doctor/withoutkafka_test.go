package doctor_test

import (
	"path/filepath"
	"testing"

	"chronos/node/service"
	"chronos/node/service/doctor"
)

// A deployment without Kafka is well as it is: what is about Kafka is left out, and said to be, and nothing is found.
func TestWithoutKafka(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "chronos.db")
	target := service.InFile(file)
	store, err := target.Open(t.Context(), service.AnswerTimeout)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	settings, err := service.Read(service.Operate, map[string]service.Value{
		"store":      service.FlagValue("store", "sqlite:"+file),
		"api-listen": service.FlagValue("api-listen", "127.0.0.1:0"),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := settings.Config()
	if err != nil {
		t.Fatal(err)
	}
	report, err := doctor.Examine(t.Context(), config, doctor.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if report.Verdict != doctor.Well || len(report.Findings) != 0 || report.Kafka != "none" {
		t.Errorf("the verdict is %s: %+v", report.Verdict, report)
	}
	results := map[string]doctor.Result{}
	for _, c := range report.Checks {
		results[c.Name] = c.Result
	}
	for name, want := range map[string]doctor.Result{
		"kafka": doctor.Well, "topics": doctor.Skipped, "positions": doctor.Skipped, "owner": doctor.Well,
		"what waits": doctor.Well, "api": doctor.Well,
	} {
		if results[name] != want {
			t.Errorf("%s: %s, want %s", name, results[name], want)
		}
	}
}
