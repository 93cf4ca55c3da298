package service

import (
	"fmt"
	"io"
	"strings"
)

// WriteReference writes docs/REFERENCE.md: the table of settings as a page for people.
func WriteReference(out io.Writer) error {
	p := &page{out: out}
	p.line("<!-- Made from node/service/table.go by `CHRONOS_UPDATE=1 go test ./node/service`. Do not edit. -->")
	p.line("")
	p.line("# Settings")
	p.line("")
	p.line("Every setting is a flag, an environment variable and a key of the YAML file that `--config` names, and")
	p.line("means the same in each place. A flag wins over the environment, and that over the file. What is not known")
	p.line("is an error, in all three. A time is written `100ms`, `5s` or `1m30s`; a list is separated by commas, or a")
	p.line("list in the file.")
	p.rows("Everywhere", "")
	for _, g := range Groups() {
		p.rows(g.Title, g.Key)
	}
	p.line("")
	p.line("## Routes")
	p.line("")
	p.line("Several routes are served by one node through the key `routes` of the file, in place of `input-topic`,")
	p.line("`output-topic`, `targets`, `dead-letter-topic`, `outcome-topic` and `compression`: a list with the keys")
	p.line("`input`, `output`, `targets` (a list), `dead-letter`, `outcomes`, `format`, `window` and `compression` for")
	p.line("each. Routes that may write to the same topic have the same compression.")
	p.line("An output and a target may be a topic, or a callback lane, `http:NAME`; the others are topics.")
	p.line("The format says how records ask for something: `chronos`, which is the default, by headers; `amnesix` and")
	p.line("`etf1` as [MOVING.md](MOVING.md) says. The output of `amnesix` is a callback lane.")
	p.lanes()
	return p.err
}

// page keeps the first error, and writes nothing after it.
type page struct {
	out io.Writer
	err error
}

func (p *page) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.out, format+"\n", args...)
	}
}

// rows writes the settings of a group.
func (p *page) rows(title, group string) {
	p.line("")
	p.line("## %s", title)
	for _, row := range Table(All) {
		if row.Group != group {
			continue
		}
		p.line("")
		flag, places := "--"+row.Name, fmt.Sprintf("`%s`, key `%s`", row.Variable(), row.Name)
		if row.PlaceHolder != "" {
			flag += " " + row.PlaceHolder
		}
		if row.Name == "config" {
			places = fmt.Sprintf("`%s`", row.Variable())
		}
		p.line("**`%s`** (%s) of %s.", flag, places, row.Commands)
		p.line("%s", row.Describe(Run))
		if allowed := row.allowed(); allowed != "" {
			p.line("It must be %s.", allowed)
		}
		if row.DevDefault != "" {
			p.line("Default of `chronos dev`: %s.", row.DevDefault)
		}
	}
}

// allowed says what a value must be, if the help does not.
func (s *Setting) allowed() string {
	switch {
	case s.Allowed != "":
		return s.Allowed
	case s.form.toggle:
		return "`true` or `false`; the flag alone means `true`"
	case s.form.choices != nil && !strings.Contains(s.Help, s.form.choices[0]):
		return strings.Join(s.form.choices, ", ")
	}
	return ""
}
