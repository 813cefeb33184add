package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"fedpace/internal/registry"
)

// node is a value as a file or a flag gives it, with its place.
type node struct {
	where  string // of its key, or of the element of a list: "config.yaml:7" or "--set"
	kind   kind
	text   string // scalar
	isText bool   // scalar: not a number, true or false
	quoted bool   // scalar: by quotes or as a block
	items  []*node
	keys   []string // map, in order
	fields map[string]*node
}

type kind int

const (
	null kind = iota
	scalar
	list
	mapping
	alien // YAML that no configuration needs: anchors, aliases, tags
)

// bare is the key of a word that stands beside keys of its group, as in
// "close: first" followed by "close.n: 3".
const bare = ""

// newNode converts a parsed value. place says where a part of it stands.
func newNode(n ast.Node, where string, place func(ast.Node) string) (*node, error) {
	out := &node{where: where, kind: scalar}
	switch n := n.(type) {
	case nil, *ast.NullNode:
		out.kind = null
	case *ast.StringNode:
		t := n.GetToken().Type
		out.text, out.isText, out.quoted = n.Value, true, t == token.SingleQuoteType || t == token.DoubleQuoteType
	case *ast.LiteralNode:
		out.text, out.isText, out.quoted = n.Value.Value, true, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		out.text = n.GetToken().Value
	case *ast.SequenceNode:
		out.kind = list
		for _, v := range n.Values {
			item, err := newNode(v, place(v), place)
			if err != nil {
				return nil, err
			}
			out.items = append(out.items, item)
		}
	case *ast.MappingNode:
		out.kind = mapping
		for _, v := range n.Values {
			name := v.Key.String()
			if s, ok := v.Key.(*ast.StringNode); ok {
				name = s.Value
			}
			value, err := newNode(v.Value, place(v.Key), place)
			if err == nil {
				err = out.insert("", name, value)
			}
			if err != nil {
				return nil, err
			}
		}
	default:
		out.kind = alien
	}
	return out, nil
}

// insert puts a value into a map, at a path that may have dots. prefix is the
// map's own path, for messages. A key that is set already is refused: which of
// the two values was meant is anybody's guess.
func (m *node) insert(prefix, path string, value *node) error {
	name, rest, nested := strings.Cut(path, ".")
	if nested {
		below := &node{where: value.where, kind: mapping}
		if err := below.insert(prefix+name+".", rest, value); err != nil {
			return err
		}
		value = below
	}
	old := m.fields[name]
	switch {
	case old == nil || old.kind == null && value.kind == mapping:
		m.set(name, value)
		return nil
	case old.kind != mapping && value.kind != mapping:
		return &KeyError{Where: value.where, Key: prefix + strings.TrimSuffix(name, "."), Problem: already(old)}
	case old.kind != mapping:
		word := old
		old = &node{where: word.where, kind: mapping}
		old.set(bare, word)
		m.set(name, old)
	case value.kind == null:
		return nil
	case value.kind != mapping:
		return old.insert(prefix+name+".", bare, value)
	}
	for _, key := range value.keys {
		if err := old.insert(prefix+name+".", key, value.fields[key]); err != nil {
			return err
		}
	}
	return nil
}

func already(first *node) string {
	return fmt.Sprintf("is set already, at %s (keep one of the two)", first.where)
}

// set sets a key of a map, which keeps its place in the order.
func (m *node) set(name string, value *node) {
	if m.fields == nil {
		m.fields = map[string]*node{}
	}
	if m.fields[name] == nil {
		m.keys = append(m.keys, name)
	}
	m.fields[name] = value
}

// overlay lets what a later flag gives for a map count instead of what earlier
// ones gave. word returns the key that names the entry of a choice, "" for the
// path of a group: naming an entry again takes back the earlier entry's options.
func (m *node) overlay(path string, later *node, word func(path string) string) {
	for _, key := range later.keys {
		value, old := later.fields[key], m.fields[key]
		below := strings.TrimPrefix(path+"."+key, ".")
		w := word(below)
		if w != "" && value.kind == scalar {
			named := &node{where: value.where, kind: mapping}
			named.set(bare, value)
			value = named
		}
		named := func(n *node) bool { return w != "" && (n.fields[w] != nil || n.fields[bare] != nil) }
		if old == nil || old.kind != mapping || value.kind != mapping || named(old) && named(value) {
			m.set(key, value)
			continue
		}
		old.overlay(below, value, word)
	}
}

// places notes where the parts of a value stand, by their full paths.
func (n *node) places(to map[string]string, path string) {
	to[path] = n.where
	for i, item := range n.items {
		item.places(to, fmt.Sprintf("%s[%d]", path, i))
	}
	for _, key := range n.keys {
		n.fields[key].places(to, strings.Trim(path+"."+key, "."))
	}
}

// placeOf is where a key stands; "" when nowhere. A key that is not set stands
// where the nearest value around it does.
func placeOf(places map[string]string, path string) string {
	for path != "" {
		if where, ok := places[path]; ok {
			return where
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	return ""
}

// pairs is a map as the list of structs that it stands for: each key is the first of the
// options, its value the second.
func (n *node) pairs(options []registry.Option) *node {
	out := &node{where: n.where, kind: list}
	for _, key := range n.keys {
		value := n.fields[key]
		item := &node{where: value.where, kind: mapping}
		item.set(options[0].Key, &node{where: value.where, kind: scalar, text: key, isText: true})
		item.set(options[1].Key, value)
		out.items = append(out.items, item)
	}
	return out
}

// scalar is the text of a node that must hold one value.
func (n *node) scalar(want string) (string, error) {
	switch n.kind {
	case scalar:
		return n.text, nil
	case alien:
		return "", fmt.Errorf("YAML's anchors, aliases and tags are not read here (write %s)", want)
	}
	found := map[kind]string{null: "nothing", list: "a list", mapping: "a map"}
	return "", fmt.Errorf("%s stands where %s is wanted", found[n.kind], want)
}

// instead is the error about any other kind of node.
func (n *node) instead(path, want string) error {
	if _, err := n.scalar(want); err != nil {
		return fail(n, path, "%v", err)
	}
	return fail(n, path, "%s stands where %s is wanted", n.shown(), want)
}

// shown is a scalar in a message: quoted if it is text.
func (n *node) shown() string {
	s := n.text
	if len(s) > 60 {
		s = s[:60] + "..."
	}
	if n.isText {
		s = strconv.Quote(s)
	}
	return s
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
	case 1:
		root = file.Docs[0].Body
	default:
		err = fmt.Errorf("%d documents stand where one is wanted", len(file.Docs))
	}
	return root, err
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
