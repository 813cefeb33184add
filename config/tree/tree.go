package tree

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Node is a value as a file or a flag gives it, with its place.
type Node struct {
	Place  string // of its key, or of the element of a list: "config.yaml:7" or "--set"
	Kind   Kind
	Text   string // scalar
	IsText bool   // scalar: not a number, true or false
	Quoted bool   // scalar: by quotes or as a block
	Items  []*Node
	Keys   []string // map, in order
	Fields map[string]*Node
}

// Kind is what a value is.
type Kind int

// The kinds.
const (
	Null Kind = iota
	Scalar
	List
	Map
	alien // YAML that no configuration needs: anchors, aliases, tags
)

// Bare is the key of a word that stands beside keys of its group, as in
// "close: first" followed by "close.n: 3".
const Bare = ""

// Word is a text that stands nowhere.
func Word(text string) *Node { return &Node{Kind: Scalar, Text: text, IsText: true} }

// Parse reads what a YAML file sets; name is how messages call it.
func Parse(name string, text []byte) (*Node, error) {
	empty := &Node{Kind: Map}
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // some editors begin a file with it
	if len(bytes.TrimSpace(text)) == 0 {
		return empty, nil
	}
	root, err := parseYAML(text)
	if err != nil {
		return nil, syntaxError(name, err)
	}
	place := func(n ast.Node) string { return fmt.Sprintf("%s:%d", name, lineOf(n)) }
	n, err := newNode(root, "", place)
	switch {
	case err != nil:
		return nil, err
	case n.Kind == Null:
		return empty, nil
	case n.Kind != Map:
		return nil, fmt.Errorf("%s: a configuration is a map of keys, e.g. \"task: femnist\"", place(root))
	}
	return n, nil
}

// Value reads a value in YAML that stands at one place. name is how messages call it.
func Value(name, place string, text []byte) (*Node, error) {
	root, err := parseYAML(text)
	if err != nil {
		return nil, syntaxError(name, err)
	}
	return newNode(root, place, func(ast.Node) string { return place })
}

// newNode converts a parsed value. place says where a part of it stands.
func newNode(n ast.Node, where string, place func(ast.Node) string) (*Node, error) {
	node := &Node{Place: where, Kind: Scalar}
	switch n := n.(type) {
	case nil, *ast.NullNode:
		node.Kind = Null
	case *ast.StringNode:
		t := n.GetToken().Type
		node.Text = n.Value
		node.IsText = true
		node.Quoted = t == token.SingleQuoteType || t == token.DoubleQuoteType
	case *ast.LiteralNode:
		node.Text = n.Value.Value
		node.IsText = true
		node.Quoted = true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		node.Text = n.GetToken().Value
	case *ast.SequenceNode:
		node.Kind = List
		for _, v := range n.Values {
			v = plainWithColon(v)
			item, err := newNode(v, place(v), place)
			if err != nil {
				return nil, err
			}
			node.Items = append(node.Items, item)
		}
	case *ast.MappingNode:
		node.Kind = Map
		for _, v := range n.Values {
			name := v.Key.String()
			if s, ok := v.Key.(*ast.StringNode); ok {
				name = s.Value
			}
			value, err := newNode(v.Value, place(v.Key), place)
			if err == nil {
				err = node.Insert("", name, value)
			}
			if err != nil {
				return nil, err
			}
		}
	default:
		node.Kind = alien
	}
	return node, nil
}

// plainWithColon returns the text that an element of a list in brackets is, where the parser
// takes a:b for a map of a to b. YAML 1.2 (7.3.3) reads a colon in a plain text as a part of it
// unless a space follows. Any other value is returned as it is.
func plainWithColon(n ast.Node) ast.Node {
	m, isMap := n.(*ast.MappingNode)
	if !isMap || m.IsFlowStyle || len(m.Values) != 1 {
		return n
	}
	pair := m.Values[0]
	key, isText := pair.Key.(*ast.StringNode)
	value := pair.Value.GetToken()
	separate := pair.Start == nil || value == nil || value.Position.Offset != pair.Start.Position.Offset+1
	if !isText || separate || key.GetToken().Type != token.StringType {
		return n
	}
	text := *key
	text.Value = key.Value + ":" + value.Value
	return &text
}

// Insert puts a value into a map, at a path that may have dots. prefix is the
// map's own path, for messages. A key that is set already is refused: which of
// the two values was meant is anybody's guess.
func (m *Node) Insert(prefix, path string, value *Node) error {
	name, rest, nested := strings.Cut(path, ".")
	if nested {
		below := &Node{Place: value.Place, Kind: Map}
		if err := below.Insert(prefix+name+".", rest, value); err != nil {
			return err
		}
		value = below
	}
	old := m.Fields[name]
	switch {
	case old == nil || old.Kind == Null && value.Kind == Map:
		m.Set(name, value)
		return nil
	case old.Kind != Map && value.Kind != Map:
		return &KeyError{Place: value.Place, Key: prefix + strings.TrimSuffix(name, "."), Problem: Already(old)}
	case old.Kind != Map:
		word := old
		old = &Node{Place: word.Place, Kind: Map}
		old.Set(Bare, word)
		m.Set(name, old)
	case value.Kind == Null:
		return nil
	case value.Kind != Map:
		return old.Insert(prefix+name+".", Bare, value)
	}
	for _, key := range value.Keys {
		if err := old.Insert(prefix+name+".", key, value.Fields[key]); err != nil {
			return err
		}
	}
	return nil
}

// Already says that a value was set before, and where.
func Already(first *Node) string {
	return fmt.Sprintf("is set already, at %s (keep one of the two)", first.Place)
}

// Set sets a key of a map, which keeps its place in the order.
func (m *Node) Set(name string, value *Node) {
	if m.Fields == nil {
		m.Fields = map[string]*Node{}
	}
	if m.Fields[name] == nil {
		m.Keys = append(m.Keys, name)
	}
	m.Fields[name] = value
}

// Places notes where the parts of a value stand, by their full paths.
func (n *Node) Places(places map[string]string, path string) {
	places[path] = n.Place
	for i, item := range n.Items {
		item.Places(places, fmt.Sprintf("%s[%d]", path, i))
	}
	for _, key := range n.Keys {
		n.Fields[key].Places(places, strings.Trim(path+"."+key, "."))
	}
}

// PlaceOf is where a key stands; "" when nowhere. A key that is not set stands
// where the nearest value around it does.
func PlaceOf(places map[string]string, path string) string {
	for path != "" {
		if place, ok := places[path]; ok {
			return place
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	return ""
}

// Pairs is a map as the list of structs that it stands for: in each the key is the value
// of one option, and its value that of another.
func (n *Node) Pairs(key, value string) *Node {
	list := &Node{Place: n.Place, Kind: List}
	for _, k := range n.Keys {
		v := n.Fields[k]
		item := &Node{Place: v.Place, Kind: Map}
		item.Set(key, &Node{
			Place:  v.Place,
			Kind:   Scalar,
			Text:   k,
			IsText: true,
		})
		item.Set(value, v)
		list.Items = append(list.Items, item)
	}
	return list
}

// Scalar is the text of a node that must hold one value.
func (n *Node) Scalar(want string) (string, error) {
	switch n.Kind {
	case Scalar:
		return n.Text, nil
	case alien:
		return "", fmt.Errorf("YAML's anchors, aliases and tags are not read here (write %s)", want)
	}
	found := map[Kind]string{Null: "nothing", List: "a list", Map: "a map"}
	return "", fmt.Errorf("%s stands where %s is wanted", found[n.Kind], want)
}

// Instead is the error about any other kind of Node.
func (n *Node) Instead(path, want string) error {
	if _, err := n.Scalar(want); err != nil {
		return Fail(n, path, "%v", err)
	}
	return Fail(n, path, "%s stands where %s is wanted", n.Shown(), want)
}

// Shown is a scalar in a message: quoted if it is text.
func (n *Node) Shown() string {
	s := n.Text
	if len(s) > 60 {
		s = s[:60] + "..."
	}
	if n.IsText {
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
			depth++
			if depth > maxDepth {
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
		return nil, fmt.Errorf(
			"lists or maps within each other over %d times; a configuration has none of more than a few",
			maxDepth,
		)
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
		if name != "" &&
			!strings.HasPrefix(name, SetFlag) &&
			syntax.Token != nil &&
			syntax.Token.Position != nil {
			name = fmt.Sprintf("%s:%d", name, syntax.Token.Position.Line)
		}
		return fmt.Errorf("%s: not YAML: %s", name, inWords(strings.ReplaceAll(syntax.Message, "\n", " ")))
	}
	return fmt.Errorf("%s: %w", name, err)
}

// inWords returns what a person should do about a message of the parser that says how the
// parser works. Other messages stay.
func inWords(message string) string {
	switch {
	case strings.Contains(message, `character '`+"\t"+`'`):
		return "a tab stands before a key (YAML wants spaces)"
	case message == "unexpected key name", message == "non-map value is specified":
		return "a line is no \"key: value\" (is a colon missing, or the space after it?)"
	}
	return message
}

// lineOf is the line on which a node starts, from 1.
func lineOf(n ast.Node) int {
	if n == nil || n.GetToken() == nil || n.GetToken().Position == nil {
		return 1
	}
	return n.GetToken().Position.Line
}

// KeyError says which key of a configuration is wrong, what it holds, and what
// would be right.
type KeyError struct {
	Place       string   // "config.yaml:7", "--set", or empty when the value comes from neither
	Key         string   // e.g. "schedule.k"
	Problem     string   // a sentence that names the value
	RelatedKeys []string // keys that the problem also concerns
}

// Error is one line: where, key, problem.
func (e *KeyError) Error() string {
	switch e.Place {
	case "":
		return e.Key + ": " + e.Problem
	case SetFlag:
		return e.Place + " " + e.Key + ": " + e.Problem
	}
	return e.Place + ": " + e.Key + ": " + e.Problem
}

// SetFlag is the place of a value that comes from the command line.
const SetFlag = "--set"

// Fail is an error about the value at a path.
func Fail(n *Node, path, format string, args ...any) error {
	return &KeyError{Place: n.Place, Key: path, Problem: fmt.Sprintf(format, args...)}
}
