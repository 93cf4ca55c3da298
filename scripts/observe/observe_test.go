package observe_test

import (
	"bytes"
	"fmt"
	"go/ast"
	goparser "go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"

	"chronos/node/metrics"
	"chronos/scripts/observe"
)

// Goal: every expression of alerts and dashboard is one that Prometheus takes, about metrics and labels that a node
// has. Method: the parser of Prometheus, and the table of metrics.
func TestExpressions(t *testing.T) {
	t.Parallel()
	expressions, err := observe.Expressions()
	if err != nil || len(expressions) < 50 {
		t.Fatalf("%d expressions, error %v", len(expressions), err)
	}
	used := map[string]bool{}
	for where, text := range expressions {
		expr, err := parser.NewParser(parser.Options{}).ParseExpr(text)
		if err != nil {
			t.Errorf("%s: %v", where, err)
			continue
		}
		parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
			if selector, is := n.(*parser.VectorSelector); is {
				used[rowOf(selector.Name)] = true
				checkSelector(t, where, selector)
			}
			return nil
		})
	}
	// Everything that a node tells is worth a panel or an alert.
	for _, row := range metrics.Table() {
		if !used[row.Name] {
			t.Errorf("%s is on no panel and in no alert", row.Name)
		}
	}
}

// rowOf returns the metric that a series belongs to.
func rowOf(name string) string {
	for _, row := range metrics.Table() {
		if row.Kind == metrics.Histogram && slices.Contains([]string{"_bucket", "_sum", "_count"},
			strings.TrimPrefix(name, row.Name)) {
			return row.Name
		}
	}
	return name
}

func checkSelector(t *testing.T, where string, selector *parser.VectorSelector) {
	t.Helper()
	name := selector.Name
	if regexp.MustCompile(`^(go|process|chronos_kafka)_`).MatchString(name) {
		return
	}
	for _, row := range metrics.Table() {
		if row.Name != rowOf(name) {
			continue
		}
		for _, matcher := range selector.LabelMatchers {
			known := append([]string{model.MetricNameLabel, "instance", "le"}, row.Labels...)
			if !slices.Contains(known, matcher.Name) {
				t.Errorf("%s: %s has no label %s", where, name, matcher.Name)
			}
		}
		return
	}
	t.Errorf("%s: a node has no metric %s", where, name)
}

// Goal: every alert says what is so, what to do and where more of that is, its template can be filled in, and
// docs/ALERTS.md has it. Method: the page is made anew and compared; CHRONOS_UPDATE=1 writes it.
func TestAlerts(t *testing.T) {
	t.Parallel()
	alerts, err := observe.Alerts()
	if err != nil {
		t.Fatal(err)
	}
	page := &bytes.Buffer{}
	fmt.Fprint(page, "<!-- Made from scripts/observe/alerts.yml by `CHRONOS_UPDATE=1 go test ./scripts/observe`. "+
		"Do not edit. -->\n\n# Alerts\n\nThe rules are in `scripts/observe/alerts.yml`; what the metrics mean is in "+
		"[METRICS.md](METRICS.md).\n")
	value := regexp.MustCompile(`\{\{ *\$(?:labels\.)?(\w+)[^}]*\}\}`)
	seen := map[string]bool{}
	sections := sectionsOf(t, filepath.Join("..", "..", "docs", "RUNBOOK.md"))
	for _, a := range alerts {
		severity := a.Labels["severity"]
		if seen[a.Name] || !strings.HasPrefix(a.Name, "Chronos") || severity != "critical" && severity != "warning" {
			t.Errorf("alert %s is there twice, or is called otherwise than others, or has the severity %q",
				a.Name, severity)
		}
		seen[a.Name] = true
		if _, err := time.ParseDuration(a.For); a.For != "" && err != nil {
			t.Errorf("alert %s: %v", a.Name, err)
		}
		for _, key := range []string{"summary", "action"} {
			text := a.Annotations[key]
			if !strings.HasSuffix(text, ".") {
				t.Errorf("the %s of alert %s is %q, which is no sentence", key, a.Name, text)
			}
			fill(t, a.Name, text)
		}
		waits := ""
		if a.For != "" {
			waits = ", for " + a.For
		}
		section := a.Annotations["runbook"]
		if !sections[section] {
			t.Errorf("alert %s leads to the section %q of docs/RUNBOOK.md, which is not there", a.Name, section)
		}
		fmt.Fprintf(page, "\n## %s\n\n%s (%s)\n\n    %s%s\n\n%s [More](RUNBOOK.md#%s)\n", a.Name,
			value.ReplaceAllString(a.Annotations["summary"], "*$1*"), severity,
			strings.Join(strings.Fields(a.Expr), " "), waits, a.Annotations["action"], section)
	}
	name := filepath.Join("..", "..", "docs", "ALERTS.md")
	if os.Getenv("CHRONOS_UPDATE") != "" {
		if err := os.WriteFile(name, page.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, page.Bytes()) {
		t.Errorf("docs/ALERTS.md is out of date (%v): run CHRONOS_UPDATE=1 go test ./scripts/observe", err)
	}
}

// sectionsOf returns the anchors of the sections of a page.
func sectionsOf(t *testing.T, name string) map[string]bool {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]bool{}
	for _, heading := range regexp.MustCompile(`(?m)^## (.*)$`).FindAllSubmatch(content, -1) {
		sections[strings.ReplaceAll(strings.ToLower(string(heading[1])), " ", "-")] = true
	}
	return sections
}

// fill fills a template in, as Prometheus does.
func fill(t *testing.T, alert, text string) {
	t.Helper()
	same := func(v any) any { return v }
	parsed, err := template.New(alert).Funcs(template.FuncMap{"humanize": same, "humanizeDuration": same}).
		Parse("{{ $labels := .Labels }}{{ $value := .Value }}" + text)
	if err == nil {
		err = parsed.Execute(&bytes.Buffer{}, map[string]any{"Labels": map[string]string{}, "Value": 1.0})
	}
	if err != nil {
		t.Errorf("alert %s: %v", alert, err)
	}
}

// Goal: the dashboard has no two panels in one place, and each has a title. Method: the places are compared.
func TestDashboard(t *testing.T) {
	t.Parallel()
	panels, err := observe.Panels()
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range panels {
		if a.Title == "" || a.GridPos.W < 1 || a.GridPos.X+a.GridPos.W > 24 || a.Type != "row" && len(a.Targets) == 0 {
			t.Errorf("panel %q: %+v", a.Title, a)
		}
		for _, b := range panels[:i] {
			p, q := a.GridPos, b.GridPos
			if p.X < q.X+q.W && q.X < p.X+p.W && p.Y < q.Y+q.H && q.Y < p.Y+p.H {
				t.Errorf("panels %q and %q lie over each other", a.Title, b.Title)
			}
		}
	}
}

// Goal: Prometheus takes the configurations that are shipped. Method: the keys of each are compared with those that the
// source of Prometheus has, in the version of go.mod.
func TestPrometheusTakesConfiguration(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}",
		"github.com/prometheus/prometheus").Output()
	if err != nil {
		t.Fatal(err)
	}
	source := filepath.Join(strings.TrimSpace(string(out)), "config", "config.go")
	top, global := keysOf(t, source, "Config"), keysOf(t, source, "GlobalConfig")
	scrape := keysOf(t, source, "ScrapeConfig")
	scrape["static_configs"] = true // of another package, as all ways to find targets are
	for _, name := range []string{"prometheus.yml", "../ship/compose/prometheus.yml"} {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var file struct {
			Global  map[string]any   `yaml:"global"`
			Scrapes []map[string]any `yaml:"scrape_configs"`
			All     map[string]any   `yaml:",inline"`
		}
		if err := yaml.Unmarshal(content, &file); err != nil {
			t.Fatal(err)
		}
		check := func(where string, keys map[string]any, known map[string]bool) {
			for key := range keys {
				if !known[key] {
					t.Errorf("%s: %s has the key %s, which Prometheus does not know", name, where, key)
				}
			}
		}
		check("the top", file.All, top)
		check("global", file.Global, global)
		for _, one := range file.Scrapes {
			check("an entry of scrape_configs", one, scrape)
		}
		if len(file.Scrapes) == 0 {
			t.Errorf("%s scrapes nothing", name)
		}
	}
}

// keysOf returns the keys of YAML that a struct of a file of Go is made of.
func keysOf(t *testing.T, path, name string) map[string]bool {
	t.Helper()
	file, err := goparser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, is := n.(*ast.TypeSpec)
		if !is || spec.Name.Name != name {
			return true
		}
		for _, field := range spec.Type.(*ast.StructType).Fields.List {
			if field.Tag != nil {
				tag := reflect.StructTag(strings.Trim(field.Tag.Value, "`")).Get("yaml")
				key, _, _ := strings.Cut(tag, ",")
				keys[key] = true
			}
		}
		return false
	})
	if len(keys) < 5 {
		t.Fatalf("%s has %d keys in %s: is it written otherwise now?", name, len(keys), path)
	}
	return keys
}

// Goal: the configuration of Prometheus names the rules that are there. Method: it is parsed.
func TestPrometheusConfiguration(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("prometheus.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		RuleFiles []string `yaml:"rule_files"`
	}
	if err := yaml.Unmarshal(content, &file); err != nil {
		t.Fatal(err)
	}
	for _, name := range file.RuleFiles {
		if _, err := os.Stat(name); err != nil {
			t.Error(err)
		}
	}
	if len(file.RuleFiles) == 0 {
		t.Error("it names no rules")
	}
}
