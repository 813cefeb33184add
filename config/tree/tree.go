package tree

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Node is one value of a configuration as a file or a flag writes it, before anything is known
// about its key. Which fields are set depends on its kind.
type Node struct {
	// Place is where the value's key, or the element of a list, stands: "config.yaml:7" or "--set".
	Place string
	Kind  Kind
	// Text is the content of a scalar, without quotes.
	Text string
	// IsText says that a scalar is text, not a number, true or false.
	IsText bool
	// Quoted says that a scalar was written in quotes or as a block.
	Quoted bool
	// Items are the elements of a list.
	Items []*Node
	// Keys are those of a map, in the order of the file; Fields holds the value of each.
	Keys   []string
	Fields map[string]*Node
}

// Kind is which form of YAML a value has.
type Kind int

// These are the kinds of values. The zero value is Null.
const (
	Null Kind = iota
	Scalar
	List
	Map
	// alien is YAML that no configuration needs, such as anchors, aliases and tags. It is refused
	// where the value is read, so that the message can name the key.
	alien
)

// Bare is the key of a map for a word that stands beside keys of the same group, as when "close:
// first" is followed by "close.n: 3".
const Bare = ""

// Word returns a scalar that holds a text and has no place in any file.
func Word(text string) *Node { return &Node{Kind: Scalar, Text: text, IsText: true} }

// Parse returns the map of keys in the text of a YAML file; an empty file has no keys. name is what
// messages call the file, before the number of the line.
func Parse(name string, text []byte) (*Node, error) {
	empty := &Node{Kind: Map}
	// Some editors begin a file with a byte-order mark.
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
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

// Value returns the value in a YAML text that does not come from a file, such as that of a flag. name is what
// messages about its syntax call it. place is the place of all parts of the value, which messages about keys give,
// such as SetFlag; empty for none.
func Value(name, place string, text []byte) (*Node, error) {
	root, err := parseYAML(text)
	if err != nil {
		return nil, syntaxError(name, err)
	}
	return newNode(root, place, func(ast.Node) string { return place })
}

// newNode returns the node of a YAML value from the parser's form, with the nodes of all values
// within it. where is the place of the value itself, as file and line, and place returns the place
// of any part of it. A key that is set twice is an error; a value of a kind that configurations do
// not have becomes a node of kind alien.
func newNode(n ast.Node, where string, place func(ast.Node) string) (*Node, error) {
	node := &Node{Place: where, Kind: Scalar}
	switch n := n.(type) {
	case nil, *ast.NullNode:
		node.Kind = Null
	// Quotes matter later: a quoted number is text.
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
	// The elements of a list come in their order.
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
	// Insert splits keys with dots and refuses those that are set twice.
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

// plainWithColon repairs texts with colons in a list in brackets, such as [a:b] and [1:30], where the parser
// finds a map of a to b. YAML 1.2 (7.3.3) reads a colon within a plain text as a part of it unless
// a space follows. The result is the text, or the value n itself if it is anything else.
func plainWithColon(n ast.Node) ast.Node {
	m, isMap := n.(*ast.MappingNode)
	if !isMap {
		return n
	}
	text, isPlain := plainText(m)
	if !isPlain {
		return n
	}
	return ast.String(token.New(text, text, m.Values[0].Key.GetToken().Position))
}

// plainText returns the text that n stands for, if n is a text or number without quotes, or such a text with
// colons, as 1:30. The parser reads the latter as a map of one key, 1, to one value, 30; it is a text if no space
// follows the colon.
func plainText(n ast.Node) (text string, isPlain bool) {
	if n == nil {
		return "", false
	}
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, n.GetToken().Type == token.StringType
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	case *ast.MappingNode:
		if n.IsFlowStyle || len(n.Values) != 1 {
			return "", false
		}
		pair := n.Values[0]
		key, isKeyPlain := plainText(pair.Key)
		value, isValuePlain := plainText(pair.Value)
		if !isKeyPlain || !isValuePlain || pair.Start == nil {
			return "", false
		}
		colon := pair.Start.Position.Offset
		// The colon is a separator if the value does not follow it at once.
		if firstToken(pair.Value).Position.Offset != colon+1 {
			return "", false
		}
		// Spaces before the colon belong to the text.
		gap := colon - pair.Key.GetToken().Position.Offset - utf8.RuneCountInString(key)
		return key + strings.Repeat(" ", max(0, gap)) + ":" + value, true
	}
	return "", false
}

// firstToken returns the token at which a value begins: of a map, that of its first key.
func firstToken(n ast.Node) *token.Token {
	if m, isMap := n.(*ast.MappingNode); isMap {
		return firstToken(m.Values[0].Key)
	}
	return n.GetToken()
}

// Insert adds a value to the map m, at a path whose dots separate the keys of nested maps. prefix
// is the path of m with a dot behind it, for messages. Maps at the same path are merged. A scalar
// beside a map becomes the map's [Bare] value. A key that is set already is an error, because
// nobody can tell which of the two values was meant.
func (n *Node) Insert(prefix, path string, value *Node) error {
	name, rest, isNested := strings.Cut(path, ".")
	if isNested {
		below := &Node{Place: value.Place, Kind: Map}
		if err := below.Insert(prefix+name+".", rest, value); err != nil {
			return err
		}
		value = below
	}
	// The value that was set before may be missing. It and the new one may each be a scalar or a map.
	old := n.Fields[name]
	switch {
	case old == nil || old.Kind == Null && value.Kind == Map:
		n.Set(name, value)
		return nil
	case old.Kind != Map && value.Kind != Map:
		return &KeyError{Place: value.Place, Key: prefix + strings.TrimSuffix(name, "."), Problem: AlreadySet(old)}
	// The word that was set first moves into the map, as the value of the bare key.
	case old.Kind != Map:
		word := old
		old = &Node{Place: word.Place, Kind: Map}
		old.Set(Bare, word)
		n.Set(name, old)
	case value.Kind == Null:
		return nil
	case value.Kind != Map:
		return old.Insert(prefix+name+".", Bare, value)
	}
	// Both are maps now, and each key of the new one must be new to the old one.
	for _, key := range value.Keys {
		if err := old.Insert(prefix+name+".", key, value.Fields[key]); err != nil {
			return err
		}
	}
	return nil
}

// AlreadySet returns the problem of a value that was set before, with the place of the first one.
func AlreadySet(first *Node) string {
	return fmt.Sprintf("is set already, at %s (keep one of the two)", first.Place)
}

// Set sets a key of the map m, whatever it held before. A new key is the last in the order; an old
// one keeps its position.
func (n *Node) Set(name string, value *Node) {
	if n.Fields == nil {
		n.Fields = map[string]*Node{}
	}
	if n.Fields[name] == nil {
		n.Keys = append(n.Keys, name)
	}
	n.Fields[name] = value
}

// Places stores in places where each part of the value n stands, by its full path. path is that of
// n. Places of the same paths that were stored before are overwritten.
func (n *Node) Places(places map[string]string, path string) {
	places[path] = n.Place
	for i, item := range n.Items {
		item.Places(places, fmt.Sprintf("%s[%d]", path, i))
	}
	for _, key := range n.Keys {
		n.Fields[key].Places(places, strings.Trim(path+"."+key, "."))
	}
}

// PlaceOf returns where the key at a path stands. A key that is not set stands where the nearest
// value around it does; the result is empty if no such value is set.
func PlaceOf(places map[string]string, path string) string {
	for path != "" {
		if place, ok := places[path]; ok {
			return place
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	return ""
}

// Pairs converts a map to the list of maps that it abbreviates. Each element has two keys: key
// holds one of the map's keys, and value the value that belongs to it.
func (n *Node) Pairs(key, value string) *Node {
	list := &Node{Place: n.Place, Kind: List}
	for _, k := range n.Keys {
		// Messages about the key and about its value both name the place of the value.
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

// Scalar returns the text of a node that must hold a single value. The error of another kind says
// what stands there, and that want was expected, such as "a number".
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

// WrongKind returns the error of a node whose kind does not fit its key. path is that of the key, and
// want describes what it may hold.
func (n *Node) WrongKind(path, want string) error {
	if _, err := n.Scalar(want); err != nil {
		return Fail(n, path, "%v", err)
	}
	return Fail(n, path, "%s stands where %s is wanted", n.QuotedText(), want)
}

// QuotedText returns a scalar as messages quote it: at most 60 bytes of it, in quotes if it is text.
func (n *Node) QuotedText() string {
	s := n.Text
	// A message should stay on one line.
	if len(s) > 60 {
		s = s[:60] + "..."
	}
	if n.IsText {
		s = strconv.Quote(s)
	}
	return s
}

// maxDepth is how many brackets may be open at once in a YAML text. The memory of the parser grows
// with the square of the depth: a megabyte of brackets would take gigabytes.
const maxDepth = 50

// nestsTooDeeply reports whether more than maxDepth brackets of a text are open at once. Brackets within
// quoted texts count, too; no configuration has that many of them.
func nestsTooDeeply(text []byte) bool {
	depth := 0
	for _, b := range text {
		switch b {
		case '[', '{':
			depth++
			if depth > maxDepth {
				return true
			}
		// Closing brackets without an opening one are the parser's to refuse.
		case ']', '}':
			depth = max(0, depth-1)
		}
	}
	return false
}

// parseYAML returns the content of the only document in a YAML text, or nil for a text without one.
// Texts that nest too deeply, or have several documents, are refused.
func parseYAML(text []byte) (root ast.Node, err error) {
	defer func() {
		// The parser is a library fed with a user's bytes: a panic of its own
		// is one more way to say that they are not YAML.
		if p := recover(); p != nil {
			root = nil
			err = fmt.Errorf("not YAML that can be read (%v)", p)
		}
	}()
	if nestsTooDeeply(text) {
		return nil, fmt.Errorf(
			"lists or maps within each other over %d times; a configuration has none of more than a few",
			maxDepth,
		)
	}
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		return nil, err
	}
	// A text of comments alone has no document, and one with --- in it may have several.
	switch len(file.Docs) {
	case 0:
	case 1:
		root = file.Docs[0].Body
	default:
		err = fmt.Errorf("%d documents stand where one is wanted", len(file.Docs))
	}
	return root, err
}

// syntaxError returns an error of the parser as one line: the place, and the message in words of
// this program. name is the file, whose line is added, or a flag.
func syntaxError(name string, err error) error {
	var syntax *yaml.SyntaxError
	if errors.As(err, &syntax) {
		// The line helps in a file; a set has a single line.
		isFile := name != "" && !strings.HasPrefix(name, SetFlag)
		hasLine := syntax.Token != nil && syntax.Token.Position != nil
		if isFile && hasLine {
			name = fmt.Sprintf("%s:%d", name, syntax.Token.Position.Line)
		}
		return fmt.Errorf("%s: not YAML: %s", name, plainMessage(strings.ReplaceAll(syntax.Message, "\n", " ")))
	}
	return fmt.Errorf("%s: %w", name, err)
}

// plainMessage replaces messages that describe the inner workings of the parser by what a user should
// change. Other messages are returned as they are.
func plainMessage(message string) string {
	switch {
	case strings.Contains(message, `character '`+"\t"+`'`):
		return "a tab stands before a key (YAML wants spaces)"
	case message == "unexpected key name", message == "non-map value is specified":
		return "a line is no \"key: value\" (is a colon missing, or the space after it?)"
	}
	return message
}

// lineOf returns the number of the line on which a parsed value starts. Lines count from 1, which
// is also the answer for a value without a position.
func lineOf(n ast.Node) int {
	if n == nil || n.GetToken() == nil || n.GetToken().Position == nil {
		return 1
	}
	return n.GetToken().Position.Line
}

// KeyError is an error about one key of a configuration, with its place and with words about what
// would be right.
type KeyError struct {
	// Place is "config.yaml:7" or "--set". It is empty when the value comes from neither.
	Place string
	// Key is the full path of the key, such as "schedule.k0".
	Key string
	// Problem completes a sentence about the key and names the wrong value.
	Problem string
	// RelatedKeys are other keys from which the problem follows.
	RelatedKeys []string
}

// Error returns the problem in one line, as place, key and problem. The place, a file and line, is
// left out if it is unknown. A value that was set on the command line has the flag as its place.
func (e *KeyError) Error() string {
	switch e.Place {
	case "":
		return e.Key + ": " + e.Problem
	case SetFlag:
		return e.Place + " " + e.Key + ": " + e.Problem
	}
	return e.Place + ": " + e.Key + ": " + e.Problem
}

// SetFlag is the place of a value that the command line sets.
const SetFlag = "--set"

// Fail returns an error about the value n of the key at a path. The problem is formatted as
// fmt.Sprintf does.
func Fail(n *Node, path, format string, args ...any) error {
	return &KeyError{Place: n.Place, Key: path, Problem: fmt.Sprintf(format, args...)}
}
