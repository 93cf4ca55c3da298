package main

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// The settings are what a flag, an environment variable and a key of the configuration file set alike. Their one
// list are the fields below: the flag --hold-time is the variable CHRONOS_HOLD_TIME and the key hold-time.
// What is not set here has no default here either: config.go has the defaults, and reads the values.

// fileSetting says where the configuration file is.
type fileSetting struct {
	Config setting `placeholder:"FILE"`
}

// kafkaSettings say how to reach Kafka.
type kafkaSettings struct {
	Brokers          setting `group:"kafka" placeholder:"HOST:PORT,..."`
	TLS              toggle  `group:"kafka" name:"tls"`
	TLSCA            setting `group:"kafka" name:"tls-ca" placeholder:"FILE"`
	TLSCert          setting `group:"kafka" name:"tls-cert" placeholder:"FILE"`
	TLSKey           setting `group:"kafka" name:"tls-key" placeholder:"FILE"`
	SASLMechanism    setting `group:"kafka" name:"sasl-mechanism" placeholder:"NAME"`
	SASLUsername     setting `group:"kafka" name:"sasl-username" placeholder:"NAME"`
	SASLPassword     setting `group:"kafka" name:"sasl-password" placeholder:"PASSWORD"`
	SASLPasswordFile setting `group:"kafka" name:"sasl-password-file" placeholder:"FILE"`
}

// storeSettings say where the messages wait.
type storeSettings struct {
	Store             setting `group:"store" placeholder:"URL"`
	StorePasswordFile setting `group:"store" placeholder:"FILE"`
	PgBouncer         toggle  `group:"store" name:"pgbouncer"`
}

// nodeSettings are the rest of what a node is told.
type nodeSettings struct {
	Group            setting `group:"kafka" placeholder:"NAME"`
	InputTopic       setting `group:"topics" placeholder:"TOPIC"`
	OutputTopic      setting `group:"topics" placeholder:"TOPIC"`
	DeadLetterTopic  setting `group:"topics" placeholder:"TOPIC"`
	RelayHeaders     setting `group:"topics" placeholder:"NAME,..."`
	EpochDeadlines   setting `group:"topics" placeholder:"UNIT"`
	CreateTopics     toggle  `group:"topics"`
	CreatePartitions setting `group:"topics" placeholder:"N"`
	Migrate          toggle  `group:"store"`

	TimingAdvance     setting `group:"timing" placeholder:"TIME"`
	HoldTime          setting `group:"timing" placeholder:"TIME"`
	PollInterval      setting `group:"timing" placeholder:"TIME"`
	DetectionInterval setting `group:"timing" placeholder:"TIME"`
	Lookahead         setting `group:"timing" placeholder:"TIME"`
	LeaveAfter        setting `group:"timing" placeholder:"TIME"`
}

// logSettings say what to log.
type logSettings struct {
	LogLevel  setting `group:"logging" placeholder:"LEVEL"`
	LogFormat setting `group:"logging" placeholder:"FORMAT"`
}

// setting is the value of a setting, as somebody wrote it, and where.
type setting struct {
	text string

	// origin is what to call the setting in front of who wrote it: "--hold-time", "CHRONOS_HOLD_TIME" or
	// "chronos.yaml:7: hold-time". It is the flag while nobody has set it.
	origin string
	isSet  bool
}

// Decode takes the value of a flag.
func (s *setting) Decode(line *kong.DecodeContext) error {
	value, err := popValue(line)
	if err != nil {
		return err
	}
	*s = setting{text: value, origin: "--" + line.Value.Name, isSet: true}
	return nil
}

// popValue returns the value of a flag or an argument, byte for byte.
func popValue(line *kong.DecodeContext) (string, error) {
	token, err := line.Scan.PopValue("value")
	if err != nil && line.Value.Flag != nil {
		return "", fmt.Errorf("it needs a value, such as --%s=%s", line.Value.Name, line.Value.Flag.PlaceHolder)
	}
	return token.String(), err
}

// get returns s. It makes toggle and setting alike.
func (s *setting) get() *setting { return s }

// toggle is a setting that is true or false; its flag alone means true.
type toggle struct{ setting }

// Decode takes the value of a flag, if it has one.
func (t *toggle) Decode(line *kong.DecodeContext) error {
	if line.Scan.Peek().Type != kong.FlagValueToken {
		line.Scan.PushTyped("true", kong.FlagValueToken)
	}
	return t.setting.Decode(line)
}

// IsBool tells that the flag needs no value.
func (t *toggle) IsBool() bool { return true }

// envPrefix begins the name of every environment variable that is a setting.
const envPrefix = "CHRONOS_"

// envName returns the environment variable of a setting.
func envName(name string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// resolve fills in the settings of the command that was parsed: those that have no flag from the environment, and
// those that are not there either from the configuration file, which it returns, nil if there is none. An
// empty environment variable counts as not set. Variables and keys that no command knows are errors.
func resolve(parsed *kong.Context, environ []string) (*configFile, error) {
	settings := map[string]*setting{}
	for _, flag := range parsed.Flags() {
		if s := settingOf(flag); s != nil {
			settings[flag.Name] = s
		}
	}
	if len(settings) == 0 {
		return nil, nil // The environment is none of its business.
	}
	known := settingNames(parsed.Kong)
	env := environment(environ)
	if err := checkEnvironment(env, known); err != nil {
		return nil, err
	}
	for name, s := range settings {
		if s.isSet {
			continue
		}
		s.origin = "--" + name
		if value := env[envName(name)]; value != "" {
			*s = setting{text: value, origin: envName(name), isSet: true}
		}
	}
	config := settings["config"]
	if config == nil || !config.isSet {
		return nil, nil
	}
	file, err := readConfigFile(config, known)
	if err != nil {
		return nil, err
	}
	for name, s := range settings {
		if value, there := file.settings[name]; there && !s.isSet {
			*s = value
		}
	}
	return file, nil
}

// settingNames returns the names of the settings of all commands.
func settingNames(parser *kong.Kong) map[string]bool {
	names := map[string]bool{}
	for _, command := range parser.Model.Leaves(false) {
		for _, group := range command.AllFlags(false) {
			for _, flag := range group {
				if settingOf(flag) != nil {
					names[flag.Name] = true
				}
			}
		}
	}
	return names
}

// settingOf returns the setting that flag sets, or nil if it is a flag only.
func settingOf(flag *kong.Flag) *setting {
	if !flag.Target.CanAddr() {
		return nil
	}
	if s, ok := reflect.TypeAssert[interface{ get() *setting }](flag.Target.Addr()); ok {
		return s.get()
	}
	return nil
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
		names[envName(name)] = true
	}
	foreign := foreignVariables()
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if !names[name] && !foreign.MatchString(name) {
			return usagef("%s is set in the environment, but there is no such setting%s", name, didYouMean(name, names))
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
