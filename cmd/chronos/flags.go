package main

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"chronos/node/service"
)

// settingFlags are the settings of a command. Their flags are made from the table of package service.
type settingFlags struct {
	kong.Plugins // one struct with a field for each setting

	command service.Command
	values  *service.Settings // after resolve

	// again reads them anew, after resolve: the flags and the environment are the same, and the file may be another.
	again func() (*service.Settings, error)
}

// The commands embed one of these.
type (
	nodeSettings    struct{ settingFlags } // run
	storeSettings   struct{ settingFlags } // migrate, export, import and journal
	submitSettings  struct{ settingFlags } // send, reschedule, replace and fire
	cancelSettings  struct{ settingFlags } // cancel
	clientSettings  struct{ settingFlags } // tail, bench and dead
	askSettings     struct{ settingFlags } // get, list, count, pause, resume, top, queue, task and action
	sandboxSettings struct{ settingFlags } // dev
	operateSettings struct{ settingFlags } // bind and rewind
	examineSettings struct{ settingFlags } // doctor
	probeSettings   struct{ settingFlags } // health
)

// takesSettings is what resolve looks for.
type takesSettings interface{ settings() *settingFlags }

func (f *settingFlags) settings() *settingFlags { return f }

// newCommands returns the command line, with the flags of the settings.
func newCommands() *commands {
	line := new(commands)
	for command, takes := range map[service.Command][]takesSettings{
		service.Run: {&line.Run},
		service.Migrate: {
			&line.Migrate.Up, &line.Migrate.Status, &line.Migrate.Print, &line.Export, &line.Import,
			&line.Journal.Skip,
		},
		service.Submit:  {&line.Send, &line.Reschedule, &line.Replace, &line.Fire},
		service.Cancel:  {&line.Cancel},
		service.Client:  {&line.Tail, &line.Bench, &line.Dead.List, &line.Dead.Show, &line.Dead.Replay},
		service.Dev:     {&line.Dev},
		service.Operate: {&line.Bind, &line.Rewind},
		service.Probe:   {&line.Health},
		service.Ask: {
			&line.Get, &line.List, &line.Count, &line.Pause, &line.Resume, &line.Top,
			&line.Queue.Put, &line.Queue.Get, &line.Queue.List, &line.Queue.Delete,
			&line.Task.Put, &line.Task.Get, &line.Task.List, &line.Task.Complete, &line.Task.Delete,
			&line.Action.Put, &line.Action.Get, &line.Action.List, &line.Action.Delete,
		},
		service.Operate | service.Examine: {&line.Doctor},
	} {
		flags := flagsOf(command)
		for _, target := range takes {
			f := target.settings()
			f.command, f.Plugins = command, kong.Plugins{reflect.New(flags).Interface()}
		}
	}
	return line
}

// flagsOf returns the type of a struct with a field for each setting of a command, tagged for kong.
func flagsOf(command service.Command) reflect.Type {
	var fields []reflect.StructField
	for _, row := range service.Table(command) {
		tag := fmt.Sprintf("name:%q help:%s", row.Name, strconv.Quote(row.Describe(command)))
		if row.Group != "" {
			tag += fmt.Sprintf(" group:%q", row.Group)
		}
		if row.PlaceHolder != "" {
			tag += fmt.Sprintf(" placeholder:%q", row.PlaceHolder)
		}
		kind := reflect.TypeFor[setting]()
		if row.Toggle() {
			kind = reflect.TypeFor[toggle]()
		}
		fields = append(fields, reflect.StructField{
			Name: fmt.Sprintf("Setting%d", len(fields)), Type: kind, Tag: reflect.StructTag(tag),
		})
	}
	return reflect.StructOf(fields)
}

// setting is the flag of a setting.
type setting struct{ value service.Value }

// Decode takes the value of a flag.
func (s *setting) Decode(line *kong.DecodeContext) error {
	text, err := popValue(line)
	if err != nil {
		return err
	}
	s.value = service.FlagValue(line.Value.Name, text)
	return nil
}

// get returns the value. It makes toggle and setting alike.
func (s *setting) get() service.Value { return s.value }

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

// popValue returns the value of a flag or an argument, byte for byte.
func popValue(line *kong.DecodeContext) (string, error) {
	next := line.Scan.Peek()
	token, err := line.Scan.PopValue("value")
	value := strings.HasPrefix(next.String(), "-") && !strings.HasPrefix(next.String(), "--") // as -5s, not a flag
	if err != nil && line.Value.Flag != nil && value {
		return "", fmt.Errorf("it needs a value: one that begins with - is written --%s=%s", line.Value.Name, next)
	}
	if err != nil && line.Value.Flag != nil {
		return "", fmt.Errorf("it needs a value, such as --%s=%s", line.Value.Name, line.Value.Flag.PlaceHolder)
	}
	return token.String(), err
}

// resolve reads the settings of the command that was parsed, if it takes any.
func resolve(parsed *kong.Context, environ []string) error {
	command, ok := reflect.TypeAssert[takesSettings](parsed.Selected().Target.Addr())
	if !ok {
		return nil // The environment is none of its business.
	}
	flags := map[string]service.Value{}
	for _, flag := range parsed.Flags() {
		if !flag.Target.CanAddr() {
			continue
		}
		s, ok := reflect.TypeAssert[interface{ get() service.Value }](flag.Target.Addr())
		if ok && s.get().IsSet {
			flags[flag.Name] = s.get()
		}
	}
	f := command.settings()
	f.again = func() (*service.Settings, error) { return service.Read(f.command, flags, environ) }
	var err error
	f.values, err = f.again()
	return err
}
