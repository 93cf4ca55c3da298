package calendar

import (
	"strings"
	"time"
	"unicode/utf8"
)

// ParseWindow reads a window in words, as the comment of this package and docs/WINDOWS.md teach them, or says, as a
// WindowError, why there is none and what to write instead. What String returns means the same window again.
//
// "On saturday" is the next one from asked on. If asked is zero, because words are kept that have no date, as in a file
// of settings, it is refused.
func ParseWindow(text string, asked time.Time) (*Window, error) {
	switch {
	case len(text) > MaxWindowBytes:
		return nil, &WindowError{
			Reason: InvalidWindow,
			Why:    "it has more than 1000 bytes: a window is a sentence; make two of it",
		}
	case !utf8.ValidString(text):
		return nil, &WindowError{Reason: InvalidWindow, Why: "it must be text in UTF-8"}
	}
	if year := asked.UTC().Year(); year < firstYear || year > lastWindowYear {
		asked = time.Time{}
	}
	p := &parser{text: text, tokens: tokens(text), asked: asked, window: &Window{zone: time.UTC, name: "UTC"}}
	p.all()
	if p.err == nil {
		p.finish()
	}
	if p.err == nil {
		p.err = p.window.survey()
	}
	if p.err != nil {
		return nil, p.err
	}
	return p.window, nil
}

// parser goes through the tokens once, from left to right, and looks ahead where words may go on in two ways. After the
// first error it stands at the end, so that whatever is asked for next is not there.
type parser struct {
	text   string
	tokens []token
	asked  time.Time
	at     int
	zoned  bool // a zone was named
	parts  int
	window *Window
	err    *WindowError
}

// tok returns a token from the one on at which the parser stands.
func (p *parser) tok(ahead int) *token {
	return &p.tokens[min(p.at+ahead, len(p.tokens)-1)]
}

// fail says what is wrong with the tokens from one on up to where the parser stands; at least that one.
func (p *parser) fail(from int, format string, args ...any) {
	p.failFor(InvalidWindow, from, format, args...)
}

func (p *parser) failFor(reason Reason, from int, format string, args ...any) {
	if p.err == nil {
		first := &p.tokens[min(from, len(p.tokens)-1)]
		last := &p.tokens[min(max(from, p.at-1), len(p.tokens)-1)]
		p.err = &WindowError{
			Reason: reason,
			At:     utf8.RuneCountInString(p.text[:first.start]) + 1,
			Text:   strings.TrimSpace(p.text[first.start:max(first.end, last.end)]),
			Why:    refuse(reason, "", format, args...).Why,
		}
	}
	p.at = len(p.tokens) - 1
}

// eat goes past a word or symbol, if it stands there.
func (p *parser) eat(texts ...string) bool {
	if !p.tok(0).is(texts...) {
		return false
	}
	p.at++
	return true
}

// count counts what the window is made of.
func (p *parser) count(from int) {
	if p.parts++; p.parts > MaxWindowParts {
		p.fail(from, "there are more than %d days and hours up to here: make several windows", MaxWindowParts)
	}
}

// all reads all of it.
func (p *parser) all() {
	w := p.window
	if p.tok(0).kind == endToken {
		p.err = &WindowError{
			Reason: InvalidWindow,
			Why:    "there is nothing: write always, never, or hours and days such as 9am to 5pm every weekday",
		}
		return
	}
	p.eat("open")
	if p.eat("never") {
		w.never = true
	} else if p.isExcept() {
		w.always = true
	} else {
		w.base = p.clauses(false)
	}
	p.zone()
	if from := p.at; p.except() {
		if w.never {
			p.fail(from, "what is never open has no exceptions")
		}
		w.except = p.clauses(true)
		p.zone()
	}
	if p.tok(0).kind != endToken {
		p.unexpected()
	}
}

// unexpected says that nothing can stand where the parser stands.
func (p *parser) unexpected() {
	from := p.at
	t := p.tok(0)
	p.at++
	switch {
	case t.is("closed"):
		p.fail(from, "write when it is open: what is closed on sundays is open always except sundays")
	case t.is("in"):
		p.fail(from, "after \"in\" stands a month or a time zone, once, such as in march, in Europe/Berlin or in UTC")
	case p.isTimeAt(from):
		p.fail(from, "hours of other days stand behind a semicolon, such as 9am to 5pm weekdays; 10am to 2pm saturdays")
	case p.isDayAt(from):
		p.fail(from, "these days can't stand here: put a comma, and or a semicolon before them")
	default:
		p.fail(from, "this is not understood here: write hours and days such as 9am to 5pm every weekday, then "+
			"\"except\" and what is left out, then \"in\" and a time zone")
	}
}

func (p *parser) isExcept() bool {
	t := p.tok(0)
	return t.is("except", "excepting", "excluding") || t.is("but") && p.tok(1).is("not")
}

func (p *parser) except() bool {
	if !p.isExcept() {
		return false
	}
	if p.eat("but") {
		p.eat("not")
		return true
	}
	p.at++
	p.eat("for")
	return true
}

// separator goes past what separates two of a kind, and reports whether something did: a comma, and, or both.
func (p *parser) separator() bool {
	found := p.eat(",", "&")
	return p.eat("and", "or", "plus") || found
}

// clauses reads clauses with separators between them.
func (p *parser) clauses(except bool) []clause {
	var all []clause
	for {
		all = append(all, p.clause(except))
		switch {
		case p.err != nil:
			return nil
		case p.eat(";"):
			p.eat("and")
		case !p.separator():
			return all
		}
		if _, month := p.tok(1).month(); p.isExcept() || p.tok(0).is("in") && !month {
			return all // ", except on sundays", ", in Europe/London"
		}
	}
}

// clause reads hours and days, in either order.
func (p *parser) clause(except bool) clause {
	from := p.at
	switch {
	case p.isSpan(p.at):
		return p.span()
	case p.isTimeAt(p.at):
		c := clause{hours: p.hoursList(false)}
		if p.err == nil && !except && p.tok(0).is(",") && p.isDayAt(p.at+1) && !p.isSpan(p.at+1) {
			p.at++ // "9am to 5pm, monday to friday"
		}
		switch {
		case p.isDayAt(p.at):
			c.days = p.daysList()
		case except || c.whole():
			c.days = []days{allDays()}
		default:
			p.fail(from, "on which days? Write every day, every weekday, or what is meant")
		}
		return c
	case p.isDayAt(p.at):
		c := clause{days: p.daysList()}
		c.hours = p.hoursAfterDays()
		return c
	}
	if p.tok(0).kind == endToken {
		p.fail(p.at, "something is missing: write hours and days such as 9am to 5pm every weekday")
	} else {
		p.unexpected()
	}
	return clause{}
}

// hoursAfterDays reads the hours that follow days, which are whole if there are none.
func (p *parser) hoursAfterDays() []hours {
	before := p.at
	if p.tok(0).is(",", ":") {
		p.at++
	}
	p.eat("at")
	if !p.isTimeAt(p.at) || p.isSpan(p.at) {
		p.at = before
		return []hours{wholeDay()}
	}
	all := p.hoursList(true)
	if p.err == nil && p.isDayAt(p.at) && before < len(p.tokens) && p.tokens[before].is(",") {
		p.at = before // "saturdays, 9am to 5pm weekdays": these hours are of the days that follow
		return []hours{wholeDay()}
	}
	return all
}

// isSince reports whether a token begins the bounds of days.
func isSince(t *token) bool { return t.is("from", "starting", "beginning", "since") }

// isTo reports whether a token stands between the ends of a range.
func isTo(t *token) bool { return t.is("-", "to", "until", "till", "through", "thru") }

// isTimeAt reports whether hours begin at a token.
func (p *parser) isTimeAt(at int) bool {
	t := p.tok(at - p.at)
	next := p.tok(at - p.at + 1)
	switch {
	case t.kind == timeToken, t.kind == alwaysToken,
		t.is("noon", "midday", "midnight", "always", "anytime", "between", "before", "after", "outside"):
		return true
	case t.is("all"):
		return next.is("day", "the")
	case t.is("any"):
		return next.is("time")
	case t.is("at"):
		return next.is("any", "all")
	case t.is("from"):
		return p.isTimeAt(at+1) && !next.is("from") && p.dateAt(at+1) == 0
	case t.kind == numberToken:
		return p.dateAt(at) == 0
	}
	return false
}

// isDayAt reports whether days begin at a token.
func (p *parser) isDayAt(at int) bool {
	t := p.tok(at - p.at)
	next := p.tok(at - p.at + 1)
	if _, _, found := t.weekday(); found {
		return true
	}
	if _, found := t.month(); found {
		return true
	}
	if _, found := t.ordinal(); found {
		return true
	}
	switch {
	case t.is("every", "each", "on", "the", "daily", "everyday", "weekday", "weekdays", "weekend", "weekends",
		"during", "day", "days"):
		return true
	case t.is("in"):
		_, found := next.month()
		return found
	case t.is("from"):
		_, _, weekday := next.weekday()
		return weekday || p.dateAt(at+1) > 0
	}
	return p.dateAt(at) > 0
}

// dateAt returns how many tokens, from one on, are a date; 0 if none.
func (p *parser) dateAt(at int) int {
	tok := func(n int) *token { return p.tok(at - p.at + n) }
	day := func(n int) bool {
		t := tok(n)
		return t.kind == ordinalToken || t.kind == numberToken && len(t.text) <= 2
	}
	var size int
	_, monthFirst := tok(0).month()
	switch {
	case tok(0).kind == dateToken:
		return 1
	case day(0):
		if size = 1; tok(1).is("of") {
			size = 2
		}
		if _, found := tok(size).month(); !found {
			return 0
		}
		size++
	case monthFirst && day(1):
		size = 2
	default:
		return 0
	}
	isYear := func(n int) bool { return tok(n).kind == numberToken && len(tok(n).text) == 4 }
	switch {
	case isYear(size):
		size++
	case tok(size).is(",") && isYear(size+1):
		size += 2
	}
	return size
}

// zone reads the time zone, if it stands there.
func (p *parser) zone() {
	from, named := p.at, false
	p.eat("where", "with", "using")
	switch {
	case p.eat("timezone", "tz", "zone"), p.tok(0).is("time") && p.tok(1).is("zone"):
		if p.eat("time") {
			p.at++
		}
		p.eat("=", ":", "is", "of")
		named = true
	case p.at == from && p.tok(0).is("in"):
		if _, month := p.tok(1).month(); !month && p.tok(1).kind != endToken {
			p.at++
			named = true
		}
		if year := p.tok(0); named && year.kind == numberToken && len(year.text) == 4 {
			p.fail(from, "for a year write its first and its last day, such as from %[1]s-01-01 to %[1]s-12-31",
				year.text)
			return
		}
	}
	t := p.tok(0)
	name := p.text[t.start:]
	if end := strings.IndexAny(name, " \t\r\n,;)"); end >= 0 {
		name = name[:end]
	}
	_, abbreviated := abbreviation(strings.ToUpper(name))
	bare := t.kind == wordToken && (strings.Contains(name, "/") || t.is("utc", "gmt") || abbreviated)
	if !named && (p.at != from || !bare) {
		if p.at != from {
			p.unexpected()
		}
		return
	}
	first := p.at
	for p.tok(0).kind != endToken && p.tok(0).start < t.start+len(name) {
		p.at++
	}
	found, canonical, why := windowZone(name)
	switch {
	case why != "":
		p.failFor(UnknownZone, first, "%s", why)
	case p.zoned:
		p.fail(from, "a window has one time zone: make two windows")
	}
	p.zoned = true
	p.window.zone, p.window.name = found, canonical
}

// finish turns what was read into its normal form: what means the same is the same.
func (p *parser) finish() {
	w := p.window
	for _, clauses := range []*[]clause{&w.base, &w.except} {
		for i := range *clauses {
			p.resolve(&(*clauses)[i])
		}
		*clauses = normal(*clauses)
	}
	for i := range w.base {
		w.always = w.always || w.base[i].always()
	}
	if w.always {
		w.base = nil
	}
}

// resolve makes the coming weekday a date.
func (p *parser) resolve(c *clause) {
	for i, d := range c.days {
		if !d.coming {
			continue
		}
		second := within(p.asked)
		wall := second + stretchAt(p.window.zone, second).offset
		last := int64(0) // minute of the day at which the hours end
		for _, h := range c.hours {
			last = max(last, h.start+h.length)
		}
		for day := dayOf(wall); ; day++ {
			if d.has(civilOf(day)) && day*daySeconds+last*60 > wall {
				c.days[i] = onlyDay(day)
				break
			}
		}
	}
}
