package bench

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"strings"
)

// The page, and the library that draws its plots: uPlot 1.6.32, with its licence. The page holds all of it,
// and needs no network.
var (
	//go:embed page/page.html
	pageSource string
	//go:embed page/page.js
	pageScript string
	//go:embed page/uPlot.iife.min.js
	plotScript string
	//go:embed page/uPlot.LICENSE
	plotLicence string
	//go:embed page/uPlot.min.css
	plotStyle string
)

// shownPage is what the page is made from.
type shownPage struct {
	Title string
	Wrong bool
	Text  string

	Data         *Result // what is plotted; of a search, the best
	Rates        []rateStep
	Plot, Script template.JS
	Style        template.CSS
}

// rateStep is a try of a search on the page.
type rateStep struct {
	Rate float64 `json:"rate"`
	P50  Millis  `json:"p50"`
	P999 Millis  `json:"p999"`
	Held bool    `json:"held"`
}

// WriteHTML writes a self-contained page with plots.
func (r *Result) WriteHTML(out io.Writer) error {
	var said strings.Builder
	if err := r.WriteText(&said); err != nil {
		return err
	}
	return write(out, &shownPage{Title: r.Load.String(), Wrong: !r.Passed(), Text: said.String(), Data: r})
}

// WriteHTML writes a self-contained page with plots of all tries, and of the best.
func (f *Found) WriteHTML(out io.Writer) error {
	var said strings.Builder
	if err := f.WriteText(&said); err != nil {
		return err
	}
	p := &shownPage{
		Title: fmt.Sprintf("%s messages/s held, with %s", number(f.Rate), f.Bound), Wrong: f.Rate == 0,
		Text: said.String(), Data: f.Best,
	}
	for _, s := range f.Steps {
		if s.Result != nil && s.Result.Received != nil {
			q := s.Result.Received.AfterDue
			p.Rates = append(p.Rates, rateStep{s.Rate, q.P50, q.P999, s.Held})
		}
	}
	return write(out, p)
}

func write(out io.Writer, p *shownPage) error {
	page, err := template.New("page").Funcs(template.FuncMap{"json": func(v any) (template.JS, error) {
		text, err := json.Marshal(v) // It escapes <, > and &, so that nothing in it ends the script.
		return template.JS(text), err
	}}).Parse(pageSource)
	if err != nil {
		return fmt.Errorf("read the template of the page: %w", err)
	}
	p.Plot = template.JS("/*\n" + plotLicence + "*/\n" + plotScript)
	p.Script, p.Style = template.JS(pageScript), template.CSS(plotStyle)
	if err := page.Execute(out, p); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}
