package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// MaxFile bounds a configuration file, in bytes: the parser's time grows with
// the square of the number of keys.
const MaxFile = 128 << 10

// assignment is one key that the user set, with its place.
type assignment struct {
	key   *key
	value ast.Node // nil: null
	where string
	place func(ast.Node) string // of a part of the value
}

// Load reads a configuration: a base, changed by the file, changed by the
// sets, each of which is "key=value" with the value in YAML's flow syntax. An
// empty path means no file.
//
// The base is [Demonstration]; where the file or a set names a task, it is that
// task's [Defaults]. Setting any stop key clears the base's stop. Three values
// follow from others unless they are set themselves: out is runs/<name>,
// clients is all once data is a path, and network.model_megabits is exact once
// model is not the task's.
//
// The result is valid. An error names the key, and the line where there is one.
func Load(path string, sets []string) (Config, error) {
	var set []assignment
	if path != "" {
		text, err := readLimited(path)
		if err != nil {
			return Config{}, err
		}
		if set, err = parseFile(path, text); err != nil {
			return Config{}, err
		}
	}
	for _, s := range sets {
		more, err := parseSet(s)
		if err != nil {
			return Config{}, err
		}
		set = append(set, more...)
	}
	return resolve(set)
}

// Parse reads a configuration from the text of a file; name is how messages call
// it.
func Parse(name string, text []byte) (Config, error) {
	if len(text) > MaxFile {
		return Config{}, fmt.Errorf("configuration: %s is larger than %d bytes", name, MaxFile)
	}
	set, err := parseFile(name, text)
	if err != nil {
		return Config{}, err
	}
	return resolve(set)
}

// readLimited reads a file of at most MaxFile bytes.
func readLimited(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	defer f.Close() // read only
	text, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	if len(text) > MaxFile {
		return nil, fmt.Errorf("configuration: %s is larger than %d bytes", path, MaxFile)
	}
	return text, nil
}

// resolve applies what was set to the base that it chooses.
func resolve(set []assignment) (Config, error) {
	c := Demonstration()
	given := map[string]*assignment{} // the last of each key
	places := map[string]string{}
	for i := range set {
		given[set[i].key.path] = &set[i]
	}
	for path, a := range given {
		places[path] = a.where
		locate(places, path, a.value, a.place)
	}
	place := func(err error) error {
		var k *KeyError
		if errors.As(err, &k) && k.Where == "" {
			for _, name := range append([]string{k.part, k.Key}, k.Others...) {
				if k.Where = placeOf(places, name); k.Where != "" {
					break
				}
			}
		}
		return err
	}

	if a := given["task"]; a != nil {
		var named Config
		if err := a.key.read(&named, a.value); err != nil {
			return Config{}, &KeyError{Where: a.where, Key: "task", Problem: err.Error()}
		}
		var err error
		if c, err = Defaults(named.Task); err != nil {
			return Config{}, place(err)
		}
	}
	for _, a := range set {
		if strings.HasPrefix(a.key.path, "stop.") {
			c.Stop = Stop{}
		}
	}
	for _, a := range set {
		if err := a.key.read(&c, a.value); err != nil {
			k := problemAt(a.key.path, err)
			here := map[string]string{k.Key: a.where}
			locate(here, a.key.path, a.value, a.place)
			k.Where = placeOf(here, k.Key)
			return Config{}, k
		}
	}
	if given["out"] == nil {
		c.Out = OutFolder(c.Name)
	}
	if given["clients"] == nil && !c.IsSynthetic() {
		c.Clients = 0
	}
	if given["network.model_megabits"] == nil && c.Model.Kind != ModelTask {
		c.Network.ModelMegabits = 0
	}
	if err := c.Validate(); err != nil {
		return Config{}, place(err)
	}
	return c, nil
}

// parseFile lists what a YAML file sets; name is how messages call it.
func parseFile(name string, text []byte) ([]assignment, error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // some editors begin a file with it
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, nil
	}
	root, err := parseYAML(text)
	if err != nil {
		return nil, syntaxError(name, err)
	}
	where := func(n ast.Node) string { return fmt.Sprintf("%s:%d", name, lineOf(n)) }
	if isNull(root) {
		return nil, nil
	}
	m, ok := root.(*ast.MappingNode)
	if !ok {
		return nil, fmt.Errorf("%s: a configuration is a map of keys, e.g. \"task: femnist\"", where(root))
	}
	set, err := flatten(nil, "", m, where)
	if err != nil {
		return nil, err
	}
	return set, once(set)
}

// once refuses a file that sets a key twice, with dots and within its group:
// which of the two was meant is anybody's guess.
func once(set []assignment) error {
	first := map[*key]string{}
	for _, a := range set {
		if a.value == nil { // follows from a rule that stands for its group
			continue
		}
		if before, ok := first[a.key]; ok {
			return &KeyError{Where: a.where, Key: a.key.path, Problem: fmt.Sprintf("is set already, at %s (keep one of the two)", before)}
		}
		first[a.key] = a.where
	}
	return nil
}

// parseSet lists what "key=value" sets.
func parseSet(s string) ([]assignment, error) {
	path, value, ok := strings.Cut(s, "=")
	path = strings.TrimSpace(path)
	if !ok || path == "" {
		return nil, fmt.Errorf("--set %q: want key=value, e.g. schedule.k=error", s)
	}
	if len(value) > maxText {
		return nil, &KeyError{Where: setFlag, Key: path, Problem: fmt.Sprintf("a value of %d bytes is too long (at most %d)", len(value), maxText)}
	}
	where := func(ast.Node) string { return setFlag }
	// Text stands as it is, so that paths and addresses need no YAML quotes.
	if k := keyAt(path); k != nil && k.text && !strings.HasPrefix(value, `"`) && !strings.HasPrefix(value, "'") && value != "null" {
		return []assignment{{k, ast.String(token.String(value, value, &token.Position{Line: 1, Column: 1})), setFlag, where}}, nil
	}
	root, err := parseYAML([]byte(value))
	if err != nil {
		return nil, syntaxError(setFlag+" "+path, err)
	}
	return put(nil, path, root, where)
}

// flatten appends what a map sets below the prefix, which is "" or ends with a
// dot.
func flatten(set []assignment, prefix string, m *ast.MappingNode, where func(ast.Node) string) ([]assignment, error) {
	for _, v := range m.Values {
		name, ok := v.Key.(*ast.StringNode)
		if !ok {
			return nil, &KeyError{Where: where(v.Key), Key: prefix + v.Key.String(), Problem: unknownKey(prefix + v.Key.String())}
		}
		var err error
		if set, err = put(set, prefix+name.Value, v.Value, func(n ast.Node) string {
			if n == v.Value { // a value may start on the line below its key
				return where(v.Key)
			}
			return where(n)
		}); err != nil {
			return nil, err
		}
	}
	return set, nil
}

// put appends what a value sets that stands at a path, a key's or a group's.
func put(set []assignment, path string, value ast.Node, where func(ast.Node) string) ([]assignment, error) {
	if k := keyAt(path); k != nil {
		return append(set, assignment{k, value, where(value), where}), nil
	}
	if !isGroup(path) {
		return nil, &KeyError{Where: where(value), Key: path, Problem: unknownKey(path)}
	}
	if isNull(value) { // a group whose keys are all commented out
		return set, nil
	}
	m, isMap := value.(*ast.MappingNode)
	if word, ok := rules[path]; ok {
		if !isMap {
			return anew(append(set, assignment{keyAt(path + "." + word), value, where(value), where}), path, nil, where(value), where), nil
		}
		if named := mapKeys(m); slices.Contains(named, word) {
			set = anew(set, path, named, where(value), where)
		}
	} else if !isMap {
		return nil, &KeyError{Where: where(value), Key: path, Problem: "this is a group of keys: " + orList(groupKeys(path))}
	}
	return flatten(set, path+".", m, where)
}

// rules are the groups that one word may stand for, the value of the key named
// here: "availability: always". A word, or a map that holds that key, sets the
// whole group anew: what an earlier rule was set with is null again.
var rules = map[string]string{"select": "rule", "availability": "model", "close": "rule"}

// anew sets the keys of a group to null but for its word and those named.
func anew(set []assignment, group string, named []string, at string, where func(ast.Node) string) []assignment {
	for _, name := range groupKeys(group) {
		if name != rules[group] && !slices.Contains(named, name) {
			set = append(set, assignment{keyAt(group + "." + name), nil, at, where})
		}
	}
	return set
}

func mapKeys(m *ast.MappingNode) []string {
	var list []string
	for _, v := range m.Values {
		list = append(list, v.Key.String())
	}
	return list
}

func isGroup(path string) bool { return len(groupKeys(path)) > 0 }

// groupKeys lists the names below a group.
func groupKeys(group string) []string {
	var names []string
	for _, k := range keys {
		if name, ok := strings.CutPrefix(k.path, group+"."); ok {
			names = append(names, name)
		}
	}
	return names
}

// unknownKey says that a key is not known, and which is near: a full path, or
// the same name in another group.
func unknownKey(path string) string {
	var paths []string
	groups := map[string]bool{}
	for _, k := range keys {
		if group, _, ok := strings.Cut(k.path, "."); ok && !groups[group] {
			groups[group] = true
			paths = append(paths, group)
		}
		paths = append(paths, k.path)
	}
	if near := nearest(path, paths); near != "" {
		return fmt.Sprintf("unknown key (did you mean %q?)", near)
	}
	last := path[strings.LastIndex(path, ".")+1:]
	for _, k := range keys {
		if strings.HasSuffix(k.path, "."+last) {
			return fmt.Sprintf("unknown key (did you mean %q?)", k.path)
		}
	}
	return "unknown key (fedpace help configuration lists all)"
}

// maxDepth bounds nesting in YAML's flow style. The parser's memory grows with
// the square of it: a megabyte of brackets would take gigabytes.
const maxDepth = 50

// deep says whether brackets nest beyond maxDepth. Those within texts count,
// too: no configuration has that many of them open.
func deep(text []byte) bool {
	depth := 0
	for _, b := range text {
		switch b {
		case '[', '{':
			if depth++; depth > maxDepth {
				return true
			}
		case ']', '}':
			depth = max(0, depth-1)
		}
	}
	return false
}

// parseYAML returns the one document's content.
func parseYAML(text []byte) (root ast.Node, err error) {
	defer func() {
		// The parser is a library fed with a user's bytes: a panic of its own
		// is one more way to say that they are not YAML.
		if p := recover(); p != nil {
			root, err = nil, fmt.Errorf("not YAML that can be read (%v)", p)
		}
	}()
	if deep(text) {
		return nil, fmt.Errorf("lists or maps within each other over %d times; a configuration has none of more than a few", maxDepth)
	}
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		return nil, err
	}
	switch len(file.Docs) {
	case 0:
		return nil, nil
	case 1:
		return file.Docs[0].Body, nil
	}
	return nil, fmt.Errorf("%d documents stand where one is wanted", len(file.Docs))
}

// syntaxError puts the parser's message on one line behind its place.
func syntaxError(name string, err error) error {
	var syntax *yaml.SyntaxError
	if errors.As(err, &syntax) {
		if name != "" && !strings.HasPrefix(name, setFlag) && syntax.Token != nil && syntax.Token.Position != nil {
			name = fmt.Sprintf("%s:%d", name, syntax.Token.Position.Line)
		}
		return fmt.Errorf("%s: not YAML: %s", name, strings.ReplaceAll(syntax.Message, "\n", " "))
	}
	return fmt.Errorf("%s: %w", name, err)
}

// lineOf is the line on which a node starts, from 1.
func lineOf(n ast.Node) int {
	if n == nil || n.GetToken() == nil || n.GetToken().Position == nil {
		return 1
	}
	return n.GetToken().Position.Line
}
