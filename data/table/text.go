package table

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"fedpace/data/federated"
	"fedpace/learn"
)

// maxText bounds the tokens of all rows with a label, each of which is padded to a window: 2^36, or
// less where an int has 32 bits.
const maxText = min(1<<36, math.MaxInt)

// tokens makes the samples of a table of texts and returns s with them. names are the clients, and
// clientRows has the rows of each.
//
// With a label each row is one sample: its first tokens, padded at the end to the window. Without a
// label the texts of a client are joined by line breaks. Each window of them is a sample, whose
// label is the token behind it.
func (r *reading) tokens(s federated.Grouped, names []string, clientRows [][]int32) (*federated.Grouped, error) {
	alphabet, err := r.alphabet()
	if err != nil {
		return nil, fmt.Errorf("column %s: %w", r.t.Text, err)
	}
	s.About.Input = learn.Tokens
	s.About.Features = r.t.Window
	// One token more than the alphabet has stands for padding and for what is unknown.
	s.About.Vocabulary = len(alphabet.Tokens) + 1
	s.About.Alphabet = alphabet.Tokens
	g := r.newGrouping()
	// With a label, each row is a sample of its own.
	if r.label != nil {
		if r.rows > maxText/r.t.Window {
			return nil, fmt.Errorf("window: %d rows of %d tokens are more than %d bytes", r.rows, r.t.Window, maxText)
		}
		rows := &federated.ByteRows{Width: r.t.Window, Coding: federated.Tokens, Bytes: make([]byte, r.rows*r.t.Window)}
		for row := range r.rows {
			alphabet.Encode(rows.Bytes[row*r.t.Window:][:0:r.t.Window], r.text.row(int32(row)))
		}
		for c, name := range names {
			train, held := r.splitRows(c, clientRows[c])
			g.Add(name, train, held)
		}
		s.Rows = rows
		return r.withTimes(g.Set(s))
	}
	// Without a label, samples are windows of a text, which overlap and are not stored one by one.
	s.Rows = &federated.TextRows{Window: r.t.Window}
	// Without a label, the windows of each client are made one client after the other.
	w := &windows{reading: r, alphabet: alphabet, set: &s}
	for c, name := range names {
		train, held, err := w.addClient(clientRows[c])
		if err != nil {
			return nil, err
		}
		g.Add(name, train, held)
	}
	s.About.Classes = s.About.Vocabulary
	s.About.Labels = append([]string{""}, alphabet.Tokens...)
	// Texts that are too short leave no window behind the training part: the held-out text has a fifth of the
	// tokens behind the first window (see addClient), and must itself be longer than a window.
	if len(g.Held) == 0 && len(g.Train) > 0 && !g.MarksHeldOut {
		return nil, fmt.Errorf(
			"no sample is held out for validation; want a client with more than %d tokens of text, six windows",
			6*r.t.Window,
		)
	}
	return g.Set(s)
}

// alphabet returns the tokens that the texts are made of, sorted: all characters, or all bytes,
// that occur in them. It returns an error for more than federated.MaxAlphabet tokens, and for
// characters of a text that is not UTF-8.
func (r *reading) alphabet() (*federated.Alphabet, error) {
	all := r.text.all
	if r.t.Label == "" {
		// A line break separates one text from the next.
		all = append(slices.Clip(all), '\n')
	}
	var tokens []string
	if r.t.Tokens == byteTokens {
		for b := range 256 {
			if bytes.IndexByte(all, byte(b)) >= 0 {
				tokens = append(tokens, fmt.Sprintf("0x%02x", b))
			}
		}
	} else {
		if !utf8.Valid(all) {
			return nil, fmt.Errorf("a text is not UTF-8; want that (%s), or tokens: bytes", toUTF8)
		}
		// The check within the loop keeps the map small.
		seen := map[rune]bool{}
		for _, c := range string(all) {
			seen[c] = true
			if len(seen) > federated.MaxAlphabet {
				return nil, fmt.Errorf("more than %d different characters; want tokens: bytes", federated.MaxAlphabet)
			}
		}
		for c := range seen {
			tokens = append(tokens, string(c))
		}
		slices.Sort(tokens)
	}
	if len(tokens) > federated.MaxAlphabet {
		return nil, fmt.Errorf("%d different bytes, want at most %d", len(tokens), federated.MaxAlphabet)
	}
	return federated.NewAlphabet(tokens, r.t.Tokens == byteTokens), nil
}

// windows makes samples of the texts of clients, in which each window of tokens predicts the next
// one.
type windows struct {
	*reading
	// alphabet encodes the texts, a byte for each token.
	alphabet *federated.Alphabet
	// set receives the texts.
	set *federated.Grouped
}

// addClient adds the texts of the given rows, all of one client, to the set and returns the samples of
// them for training and those held out. If nothing says which rows are held out, the last fifth of
// the windows is. No window of training reaches into the held-out text.
func (w *windows) addClient(rows []int32) (train, held []int32, err error) {
	if w.marksHeldOut() {
		// The client's number decides only where rows are held out at random.
		const anyClient = 0
		trainRows, heldRows := w.splitRows(anyClient, rows)
		train, err = w.set.AddText(w.encode(trainRows))
		if err == nil {
			held, err = w.set.AddText(w.encode(heldRows))
		}
		return train, held, err
	}
	text := w.encode(rows)
	// Four fifths of the windows are for training. The text behind the last of them is held out.
	trainWindows := max(0, len(text)-w.t.Window) * 4 / 5
	trainEnd := min(len(text), trainWindows+w.t.Window)
	train, err = w.set.AddText(text[:trainEnd])
	if err == nil {
		held, err = w.set.AddText(text[trainEnd:])
	}
	return train, held, err
}

// encode joins the texts of the given rows by line breaks and returns their tokens, one byte for
// each.
func (w *windows) encode(rows []int32) []byte {
	var text []byte
	for i, row := range rows {
		if i > 0 {
			text = append(text, '\n')
		}
		text = append(text, w.text.row(row)...)
	}
	return w.alphabet.Encode(make([]byte, 0, len(text)), text)
}
