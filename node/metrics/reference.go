package metrics

import (
	"fmt"
	"io"
	"strings"
)

// preface stands before the metrics; ' is ` in it.
const preface = `<!-- Made from node/metrics/table.go by 'CHRONOS_UPDATE=1 go test ./node/metrics'. Do not edit. -->

# Metrics

What a node serves as '/metrics' on '--admin-listen', for Prometheus. Histograms are classic and, for a scraper that
asks for the protobuf format, native. Labels have few values: a 'lane' is an output, a dead-letter or an outcome topic
of the configuration, or 'other' for one that this node does not serve; no id is a label. Beside these there are 'go_*',
'process_*' and 'chronos_kafka_*': connections, requests and bytes by 'client' (source, sink, admin), broker ('node_id')
and topic. What to do when an alert fires is in [ALERTS.md](ALERTS.md).
`

// WriteReference writes docs/METRICS.md: the table of metrics as a page for people.
func WriteReference(out io.Writer) error {
	var text strings.Builder
	text.WriteString(strings.ReplaceAll(preface, "'", "`"))
	for _, group := range Groups() {
		fmt.Fprintf(&text, "\n## %s\n", group.Title)
		for _, row := range Table() {
			if row.group != group.Key {
				continue
			}
			labels := ""
			if len(row.Labels) > 0 {
				labels = " by `" + strings.Join(row.Labels, "`, `") + "`"
			}
			fmt.Fprintf(&text, "\n**`%s`** (%s%s). %s", row.Name, row.Kind, labels, row.Help)
			if row.Look != "" {
				fmt.Fprintf(&text, " *%s*", row.Look)
			}
			text.WriteString("\n")
		}
	}
	_, err := io.WriteString(out, text.String())
	return err
}
