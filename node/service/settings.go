package service

import (
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"chronos/node"
	"chronos/node/calendar"
	"chronos/node/credential"
)

// Settings are the values of all settings, as somebody wrote them: the targets of the table.
type Settings struct {
	config Value

	brokers, tls, tlsCA, tlsCert, tlsKey                         Value
	kafkaProperties, clientID                                    Value
	saslMechanism, saslUsername, saslPassword, saslPasswordFile  Value
	saslTokenFile, saslTokenURL, saslScope                       Value
	maxDelay, maxMissed, maxBytes, maxHeaders, maxHeaderBytes    Value
	fetchMemory, batchMemory, httpMemory                         Value
	group, sessionTimeout                                        Value
	store, storePasswordFile, pgBouncer, migrate, dataDir        Value
	standby                                                      Value
	inputTopic, outputTopic, deadLetterTopic                     Value
	outcomeTopic, targets, compression                           Value
	relayHeaders, epochDeadlines, createTopics, createPartitions Value
	timingAdvance, holdTime, pollInterval, idleInterval          Value
	detectionInterval, lookahead, leaveAfter                     Value
	logLevel, logFormat                                          Value
	adminListen, adminTokenFile, adminTLSCert, adminTLSKey       Value
	adminAllow                                                   Value
	admin, tokenFile, adminCA                                    Value
	apiListen, apiTokenFile, apiTLSCert, apiTLSKey               Value
	apiMaxBytes, apiRate, apiWaiting, requestSecretFile          Value
	compat, metaswitchListen                                     Value
	horaeListen, horaeURL, taskRetention                         Value

	file              *configFile // nil if there is none
	keeper            *credential.Keeper
	level             slog.LevelVar // of Logger
	ignoredProperties []string      // the keys of --kafka-properties that change nothing
}

// Value is the value of a setting, as somebody wrote it, and where.
type Value struct {
	Text string

	// Origin is what to call the setting in front of who wrote it: "--hold-time", "CHRONOS_HOLD_TIME" or
	// "chronos.yaml:7: hold-time". It is the flag while nobody has set it.
	Origin string
	IsSet  bool

	// inline says that a setting that names a file has the content itself. again returns its latest text, where that
	// is in a file that may change; nil elsewhere.
	inline bool
	again  func() (string, error)

	secret bool // no error shows it
	url    bool // it is shown without passwords
}

// FlagValue returns the value that a flag has.
func FlagValue(name, text string) Value { return Value{Text: text, Origin: "--" + name, IsSet: true} }

// A UsageError is a mistake in the command line or the configuration, as one sentence for the person who made it.
type UsageError struct{ Sentence string }

// Error returns the sentence.
func (e *UsageError) Error() string { return e.Sentence }

// Usagef returns a UsageError.
func Usagef(format string, args ...any) error {
	return &UsageError{fmt.Sprintf(format, args...)}
}

// Wrong returns the error for a setting whose value is not allowed.
func (v *Value) Wrong(allowed string) error {
	if v.secret || v.inline {
		return Usagef("%s is wrong (it is not shown, it is a secret): %s", v.Origin, allowed)
	}
	return Usagef("%s is %s: %s", v.Origin, Shown(v.shown()), allowed)
}

// shown returns the value as it may be shown, which a secret is never: a URL is without its passwords.
func (v *Value) shown() string {
	if v.url {
		return credential.Redact(v.Text)
	}
	return v.Text
}

// Shown quotes a value unless it is plain.
func Shown(value string) string {
	if regexp.MustCompile(`^[\w.:/+,@-]+$`).MatchString(value) {
		return value
	}
	return strconv.Quote(value)
}

// Duration sets target, if v has a value.
func (v *Value) Duration(target *time.Duration) error {
	if !v.IsSet {
		return nil
	}
	d, err := calendar.ParseDuration(v.Text)
	if err != nil {
		return v.Wrong(err.Error())
	}
	*target = d
	return nil
}

// or returns the value, or fallback if there is none.
func (v *Value) or(fallback string) string {
	if v.IsSet {
		return v.Text
	}
	return fallback
}

// list returns the elements of the value, which are separated by commas.
func (v *Value) list() []string {
	if v.Text == "" {
		return nil
	}
	elements := strings.Split(v.Text, ",")
	for i := range elements {
		elements[i] = strings.TrimSpace(elements[i])
	}
	return elements
}

// check returns an error if v does not have the form.
func (f *form) check(v *Value) error {
	switch {
	case f.empty && v.Text == "":
		return nil
	case f.toggle && v.Text != "true" && v.Text != "false":
		return v.Wrong("it must be true or false")
	case f.auto && v.Text == "auto":
		return nil
	case f.time:
		var d time.Duration
		err := v.Duration(&d)
		if err != nil && f.auto {
			return v.Wrong("it must be a time such as 50ms, or auto")
		}
		return err
	case f.topics:
		return v.topics()
	case f.topic && !f.lane && !node.IsTopic(v.Text):
		return v.Wrong(topicForm)
	case f.lane && !isOutput(v.Text):
		return v.Wrong(laneForm)
	case f.choices != nil && !slices.Contains(f.choices, v.Text):
		last := len(f.choices) - 1
		return v.Wrong("it must be " + strings.Join(f.choices[:last], ", ") + " or " + f.choices[last])
	}
	return nil
}

// topicForm says what the name of a topic may be.
const topicForm = "the name of a topic has 1 to 249 letters, digits, dots, underscores and hyphens"

// topics returns an error if v is not a list of names of topics or callback lanes, each once.
func (v *Value) topics() error {
	names := v.list()
	for i, name := range names {
		switch {
		case !isOutput(strings.TrimSuffix(name, "*")) && name != "*" && name != otherLanes:
			return v.Wrong(laneForm + "; a target may end with a *, for all whose names begin so")
		case slices.Contains(names[:i], name):
			return v.Wrong(name + " is there twice")
		}
	}
	return nil
}

// envPrefix begins the name of every environment variable that is a setting.
const envPrefix = "CHRONOS_"

// Read returns the settings of a command: from its flags, by name; those that have none from the environment; and those
// that are not there either from the configuration file that one of them names. An empty environment variable counts
// as not set. Variables and keys that no command knows are errors, and so are values that do not have the form that
// the table says.
func Read(command Command, flags map[string]Value, environ []string) (*Settings, error) {
	known := map[string]bool{}
	for _, row := range Table(All) {
		known[row.Name] = true
	}
	env := environment(environ)
	if err := checkEnvironment(env, known); err != nil {
		return nil, err
	}
	s := &Settings{keeper: new(credential.Keeper)}
	rows := readBy(command)
	for i := range rows {
		row := &rows[i]
		v := row.value(s)
		v.Origin = "--" + row.Name
		if flag, given := flags[row.Name]; given {
			*v = flag
		} else if text := env[row.Variable()]; text != "" {
			*v = Value{Text: text, Origin: row.Variable(), IsSet: true}
		}
	}
	if s.config.IsSet {
		file, err := readConfigFile(&s.config, known)
		if err != nil {
			return nil, err
		}
		s.file = file
	}
	for i := range rows {
		v := rows[i].value(s)
		if s.file != nil && !v.IsSet {
			if value, there := s.file.settings[rows[i].Name]; there {
				*v = value
			}
		}
	}
	s.readCompat(rows, environ)
	for i := range rows {
		row := &rows[i]
		v := row.value(s)
		v.secret, v.url = row.secret, row.PlaceHolder == placeURL
		if v.IsSet {
			if err := row.form.check(v); err != nil {
				return nil, err
			}
		}
	}
	if command == Migrate && !strings.HasPrefix(s.store.Text, "journal:") {
		return s, nil // it has nothing to do with Kafka, and need not have the files for that
	}
	return s, s.readProperties()
}

// environment returns the variables of Chronos.
func environment(environ []string) map[string]string {
	env := map[string]string{}
	for _, variable := range environ {
		if name, value, ok := strings.Cut(variable, "="); ok && strings.HasPrefix(name, envPrefix) {
			env[name] = value
		}
	}
	return env
}

// foreignVariables are the names of environment variables that begin like ours and are not: those of tests, and
// those that Kubernetes sets in every pod for a service named chronos or chronos-something.
func foreignVariables() *regexp.Regexp {
	return regexp.MustCompile(`^CHRONOS_(TEST_.*` +
		`|(.*_)?SERVICE_(HOST|PORT(_.*)?)` +
		`|(.*_)?PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)
}

// checkEnvironment returns an error for a variable that is no setting: a name misspelt must not pass for a default.
func checkEnvironment(env map[string]string, known map[string]bool) error {
	names := map[string]bool{}
	for name := range known {
		names[(&Setting{Name: name}).Variable()] = true
	}
	foreign := foreignVariables()
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if !names[name] && !foreign.MatchString(name) {
			return Usagef("%s is set in the environment, but there is no such setting%s", name, didYouMean(name, names))
		}
	}
	return nil
}

// didYouMean returns a question that names the candidate closest to name, if one is close.
func didYouMean(name string, candidates map[string]bool) string {
	best, distance := "", 3
	for _, candidate := range slices.Sorted(maps.Keys(candidates)) {
		if d := editDistance(name, candidate); d < distance {
			best, distance = candidate, d
		}
	}
	if best == "" {
		return "; \"chronos run --help\" lists them"
	}
	return "; did you mean " + best + "?"
}

// editDistance returns how many letters must be added, taken away or replaced to make b of a.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
