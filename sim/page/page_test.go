package page_test

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"chronos/sim"
	"chronos/sim/page"
)

// drawn runs a scenario, with a mutant or without, and returns its page and the data of the picture in it.
func drawn(t *testing.T, setup sim.Setup) (string, page.Picture) {
	t.Helper()
	var text strings.Builder
	p := page.Page{Title: "a <title>", Command: "lab sim && true", Setup: setup, Result: sim.Run(setup)}
	if err := page.Write(&text, p); err != nil {
		t.Fatal(err)
	}
	data := regexp.MustCompile(`(?m)^const p = (.*);$`).FindStringSubmatch(text.String())
	if data == nil {
		t.Fatal("there is no picture")
	}
	var picture page.Picture
	if err := json.Unmarshal([]byte(data[1]), &picture); err != nil {
		t.Fatal(err)
	}
	return text.String(), picture
}

func scenario(t *testing.T, name, mutant string) sim.Setup {
	t.Helper()
	s, err := sim.ScenarioByName(name)
	if err != nil {
		t.Fatal(err)
	}
	s.Break = mutant
	setup, err := s.Setup()
	if err != nil {
		t.Fatal(err)
	}
	return setup
}

// TestFailure draws a failure: who was stopped, who was suspected, what became of the row, and where it ends.
func TestFailure(t *testing.T) {
	text, p := drawn(t, scenario(t, "h02-false-suspicion", "delete-by-id"))
	row := `<tr data-kind="broken" class="broken">`
	if p.Broken < 0 || !strings.HasPrefix(p.Reason, "S2") || !strings.Contains(text, row) {
		t.Errorf("the violation is not shown: %v %s", p.Broken, p.Reason)
	}
	var lanes []string
	for _, l := range p.Lanes {
		lanes = append(lanes, l.Label)
	}
	if got := strings.Join(lanes, ", "); got != "servers, application, in0/0, node 1, node 2, row x, out0/0" {
		t.Errorf("the lanes are %s", got)
	}
	seen := map[string]int{}
	for _, b := range p.Bars {
		seen[b.Kind]++
		if b.To < b.From {
			t.Errorf("the bar %+v ends before it begins", b)
		}
	}
	for _, m := range p.Marks {
		seen[m.Kind]++
	}
	for _, kind := range []string{
		"life", "pause", "waiting", "ready", "fault", "suspicion", "expelled", "submit", "append",
	} {
		if seen[kind] == 0 {
			t.Errorf("there is no %s", kind)
		}
	}
	if len(p.Messages) != 2 || len(p.Links) < 8 {
		t.Errorf("there are %d messages with %d links", len(p.Messages), len(p.Links))
	}
}

// TestEverything draws runs in which much goes wrong: outages, cut links and crashes are there, all lanes exist, and
// the page is well-formed, the same each time, needs nothing from elsewhere, and has escaped what it was given.
func TestEverything(t *testing.T) {
	seen := map[string]int{}
	setups := []sim.Setup{scenario(t, "h32-rolling-restart", "")}
	for seed := range uint64(20) {
		setups = append(setups, sim.Setup{Options: sim.Swarm(seed)})
	}
	for _, setup := range setups {
		seed := setup.Options.Seed
		text, p := drawn(t, setup)
		if again, _ := drawn(t, setup); again != text {
			t.Fatalf("seed %d: two pages of one run differ", seed)
		}
		wellFormed(t, text)
		if strings.Contains(text, "<title>a <title>") || strings.Contains(text, "sim && true") {
			t.Error("the title or the command is not escaped")
		}
		for _, other := range regexp.MustCompile(`https?://[^"]*`).FindAllString(text, -1) {
			if other != "http://www.w3.org/2000/svg" {
				t.Errorf("the page refers to %s", other)
			}
		}
		for _, b := range p.Bars {
			seen[b.Kind]++
			inside(t, b.Lane, p)
		}
		for _, m := range p.Marks {
			seen[m.Kind]++
			inside(t, m.Lane, p)
		}
		if p.Heal < 0 || p.Broken >= 0 {
			t.Errorf("seed %d heals at %v and breaks at %v", seed, p.Heal, p.Broken)
		}
	}
	for _, kind := range []string{"outage", "cut-store", "cut-broker", "pause", "crash", "failed", "stop"} {
		if seen[kind] == 0 {
			t.Errorf("no seed shows any %s", kind)
		}
	}
}

func inside(t *testing.T, lane int, p page.Picture) {
	t.Helper()
	if lane < 0 || lane >= len(p.Lanes) {
		t.Errorf("there is no lane %d", lane)
	}
}

// wellFormed reads the page as tags that match each other.
func wellFormed(t *testing.T, text string) {
	t.Helper()
	text = regexp.MustCompile(`(?s)<script>.*</script>`).ReplaceAllString(text, "")
	text = strings.NewReplacer("<!DOCTYPE html>", "").Replace(text)
	d := xml.NewDecoder(strings.NewReader(text))
	d.Strict = false
	d.AutoClose = xml.HTMLAutoClose
	d.Entity = xml.HTMLEntity
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("the page is not well-formed: %v", err)
		}
	}
}

// TestUnwritable gives it somewhere to write that fails.
func TestUnwritable(t *testing.T) {
	setup := scenario(t, "no-fault", "")
	err := page.Write(full{}, page.Page{Setup: setup, Result: sim.Run(setup)})
	if err == nil || !strings.Contains(err.Error(), "write the page") {
		t.Errorf("a full disk gives %v", err)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, fmt.Errorf("no space left") }
