// Package observe has what Prometheus and Grafana need to watch Chronos: alert rules, a dashboard, and a
// configuration that scrapes a node on this machine. The tests of this package parse them, as those of cmd/chronos
// compare them with what a node serves.
package observe

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

//go:embed alerts.yml
var alerts []byte

//go:embed dashboard.json
var dashboard []byte

// Alert is an alert rule.
type Alert struct {
	Name        string `yaml:"alert"`
	Expr        string
	For         string
	Labels      map[string]string
	Annotations map[string]string
}

// Alerts returns the alert rules.
func Alerts() ([]Alert, error) {
	var file struct {
		Groups []struct {
			Name  string
			Rules []Alert
		}
	}
	decoder := yaml.NewDecoder(strings.NewReader(string(alerts)))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil {
		return nil, fmt.Errorf("read alerts.yml: %w", err)
	}
	var all []Alert
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	return all, nil
}

// Panel is a panel of the dashboard.
type Panel struct {
	Title   string
	Type    string
	Targets []struct{ Expr string }
	GridPos struct{ X, Y, W, H int }
}

// Panels returns the panels of the dashboard.
func Panels() ([]Panel, error) {
	var file struct{ Panels []Panel }
	if err := json.Unmarshal(dashboard, &file); err != nil {
		return nil, fmt.Errorf("read dashboard.json: %w", err)
	}
	return file.Panels, nil
}

// Expressions returns all expressions of the alerts and the dashboard, without the variables of Grafana, by where they
// stand.
func Expressions() (map[string]string, error) {
	all := map[string]string{}
	rules, err := Alerts()
	if err != nil {
		return nil, err
	}
	for _, a := range rules {
		all["alert "+a.Name] = a.Expr
	}
	panels, err := Panels()
	if err != nil {
		return nil, err
	}
	variable := regexp.MustCompile(`\$(\w+|\{\w+\})`)
	for _, p := range panels {
		for i, target := range p.Targets {
			where := fmt.Sprintf("panel %s, %s at %d/%d, %d", p.Title, p.Type, p.GridPos.X, p.GridPos.Y, i)
			all[where] = variable.ReplaceAllString(target.Expr, ".*")
		}
	}
	return all, nil
}
