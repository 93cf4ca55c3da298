package service

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// configFile is what a configuration file says.
type configFile struct {
	// settings are its keys by name.
	settings map[string]Value

	// routes are the entries of the key routes, and routesOrigin is where that key is: empty if it is not.
	routes       []fileRoute
	routesOrigin string

	// lanes are the entries of the key lanes, and lanesOrigin is where that key is.
	lanes       []fileLane
	lanesOrigin string
}

// fileRoute is one entry of routes.
type fileRoute struct {
	Input       Value
	Output      Value
	DeadLetter  Value
	Outcomes    Value
	Targets     Value
	Format      Value
	Window      Value
	Compression Value
}

// fields returns the values of a route by their keys.
func (r *fileRoute) fields() map[string]*Value {
	return map[string]*Value{
		"input": &r.Input, "output": &r.Output, "targets": &r.Targets, "dead-letter": &r.DeadLetter,
		"outcomes": &r.Outcomes, "format": &r.Format, "window": &r.Window, "compression": &r.Compression,
	}
}

// routeKeys names the keys of a route to a person.
const routeKeys = "the keys input, output, targets, dead-letter, outcomes, format, window and compression"

// readConfigFile reads the file that config names. It is strict: a key that is not known, or is there twice, or has
// no value is an error that names the line.
func readConfigFile(config *Value, known map[string]bool) (*configFile, error) {
	path := config.Text
	file, err := os.Open(path)
	if err != nil {
		return nil, Usagef("%s is %s: %v", config.Origin, path, errors.Unwrap(err))
	}
	defer func() { _ = file.Close() }() // It was only read.
	parsed := &configFile{settings: map[string]Value{}}
	decoder := yaml.NewDecoder(file)
	var document yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return parsed, nil
	case err != nil:
		return nil, yamlError(path, err)
	}
	switch err := decoder.Decode(&yaml.Node{}); {
	case errors.Is(err, io.EOF):
	case err != nil:
		return nil, yamlError(path, err)
	default:
		return nil, Usagef("%s has more than one YAML document: it may have one", path)
	}
	top := document.Content[0]
	if top.Kind == yaml.ScalarNode && top.Tag == "!!null" {
		return parsed, nil
	}
	if err := parsed.read(path, top, known); err != nil {
		return nil, err
	}
	return parsed, nil
}

// read takes the keys of the top of the file.
func (f *configFile) read(path string, top *yaml.Node, known map[string]bool) error {
	names := maps.Clone(known)
	names["routes"], names["lanes"] = true, true
	delete(names, "config")
	return eachKey(path, top, "settings, such as \"group: chronos\"", names, func(key, value *yaml.Node) error {
		origin := fmt.Sprintf("%s:%d: %s", path, key.Line, key.Value)
		switch key.Value {
		case "routes":
			f.routesOrigin = origin
			return f.readRoutes(path, origin, value)
		case "lanes":
			f.lanesOrigin = origin
			return f.readLanes(path, origin, value)
		}
		text, err := textOf(origin, value)
		if err != nil {
			return err
		}
		f.settings[key.Value] = Value{Text: text, Origin: origin, IsSet: true}
		return nil
	})
}

// readRoutes takes the entries of the key routes.
func (f *configFile) readRoutes(path, origin string, list *yaml.Node) error {
	list = dereference(list)
	if list.Kind != yaml.SequenceNode || len(list.Content) == 0 {
		return Usagef("%s is not a list: it must have an entry with %s for each route", origin, routeKeys)
	}
	for _, entry := range list.Content {
		var r fileRoute
		fields, names := r.fields(), map[string]bool{}
		for name, s := range fields {
			s.Origin = fmt.Sprintf("%s:%d: %s", path, entry.Line, name)
			names[name] = true
		}
		err := eachKey(path, entry, routeKeys, names, func(key, value *yaml.Node) error {
			origin := fmt.Sprintf("%s:%d: %s", path, key.Line, key.Value)
			text, err := textOf(origin, value)
			*fields[key.Value] = Value{Text: text, Origin: origin, IsSet: true}
			return err
		})
		if err != nil {
			return err
		}
		f.routes = append(f.routes, r)
	}
	return nil
}

// eachKey calls take for each key of a mapping. Keys that are not among names, and keys that are there twice, are
// errors.
func eachKey(
	path string, mapping *yaml.Node, form string, names map[string]bool, take func(key, value *yaml.Node) error,
) error {
	mapping = dereference(mapping)
	if mapping.Kind != yaml.MappingNode {
		return Usagef("%s:%d: there must be %s", path, mapping.Line, form)
	}
	lines := map[string]int{}
	for i := 0; i < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		switch line, twice := lines[key.Value], lines[key.Value] > 0; {
		case key.Kind != yaml.ScalarNode || !names[key.Value]:
			return Usagef("%s:%d: there is no setting %q%s", path, key.Line, key.Value, didYouMean(key.Value, names))
		case twice:
			return Usagef("%s:%d: %s is there twice, first on line %d", path, key.Line, key.Value, line)
		}
		lines[key.Value] = key.Line
		if err := take(key, value); err != nil {
			return err
		}
	}
	return nil
}

// textOf returns the value of a key as the text that its flag would have: the elements of a list are joined by commas.
func textOf(origin string, value *yaml.Node) (string, error) {
	value = dereference(value)
	switch {
	case value.Kind == yaml.ScalarNode && value.Tag != "!!null":
		return value.Value, nil
	case value.Kind == yaml.SequenceNode:
		elements := make([]string, len(value.Content))
		for i, element := range value.Content {
			element = dereference(element)
			if element.Kind != yaml.ScalarNode || element.Tag == "!!null" {
				return "", Usagef("%s has an element that is not a plain value", origin)
			}
			elements[i] = element.Value
		}
		return strings.Join(elements, ","), nil
	case value.Kind == yaml.ScalarNode:
		return "", Usagef("%s has no value: give it one, or leave the line out", origin)
	default:
		return "", Usagef("%s is not a plain value or a list of them", origin)
	}
}

// dereference returns what an alias stands for.
func dereference(value *yaml.Node) *yaml.Node {
	if value.Kind == yaml.AliasNode {
		return value.Alias
	}
	return value
}

// yamlError names the line in front, as all other errors about the file do.
func yamlError(path string, err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if match := regexp.MustCompile(`^line (\d+): (.*)`).FindStringSubmatch(text); match != nil {
		return Usagef("%s:%s: it is not YAML: %s", path, match[1], match[2])
	}
	return Usagef("%s is not YAML: %s", path, text)
}
