package prose

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"fedpace/internal/statistics"
)

// A Sentence is a part of a page whose numbers follow from committed results.
type Sentence struct {
	// Says is the part as it stands on the page, with one space between words.
	Says string
	// Figures are all of its numbers that follow from the results.
	Figures []Figure
}

// A Figure is a number or a number's word in a sentence, and what the results give for it.
type Figure struct {
	// Text is the figure as the sentence writes it, with all of its digits.
	Text string
	// Value is what the results give. Rounded to the digits of Text it must be Text.
	Value float64
}

// Says returns a sentence with its figures.
func Says(text string, figures ...Figure) Sentence {
	return Sentence{Says: text, Figures: figures}
}

// Number returns a figure: its text in the sentence, and the value by the results.
func Number(text string, value float64) Figure {
	return Figure{Text: text, Value: value}
}

// Interval returns the figures of "mean ± half".
func Interval(e statistics.Estimated, mean, half string) []Figure {
	return []Figure{
		{Text: mean, Value: e.Mean},
		{Text: half, Value: e.Half},
	}
}

// numberWords are the words by which sentences write round numbers.
var numberWords = map[string]string{
	"a point":      "1",
	"one point":    "1",
	"a thirteenth": "0.077",
	"a fifth":      "0.2",
	"a third":      "0.3",
	"half":         "0.5",
	"nine tenths":  "0.9",
}

// holds reports whether the value, rounded to the digits of the text, is the text.
func (f Figure) holds() bool {
	digits, isWord := numberWords[f.Text]
	if !isWord {
		digits = f.Text
	}
	digits = strings.ReplaceAll(digits, "−", "-")
	digits = strings.TrimPrefix(strings.ReplaceAll(digits, ",", ""), "+")
	_, decimals, _ := strings.Cut(digits, ".")
	return strconv.FormatFloat(f.Value, 'f', len(decimals), 64) == digits
}

// A Page is the sentences of a page, with one space between words.
type Page struct {
	// Path is the page's file, for messages.
	Path string
	// Text has neither blocks between comments, nor commands, tables or headings. They have tests of
	// their own or hold no results.
	Text string
}

// notProse finds the blocks, commands, tables and headings of a page.
var notProse = regexp.MustCompile(`(?sm)<!-- .*?<!-- end -->|^    [^\n]*$|^\|[^\n]*$|^[^\n]* \| [^\n]*$|^#[^\n]*$`)

// Read returns the sentences of a Markdown page.
func Read(t *testing.T, path string) Page {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	prose := notProse.ReplaceAllString(string(text), "")
	return Page{Path: path, Text: strings.Join(strings.Fields(prose), " ")}
}

// Without returns the page without what the expression finds, which another test holds.
func (p Page) Without(expression *regexp.Regexp) Page {
	p.Text = expression.ReplaceAllString(p.Text, "")
	return p
}

// Check holds each sentence against the page and its figures against their values. All other numbers
// of the page must stand in one of the given parts or in a name.
func (p Page) Check(t *testing.T, sentences []Sentence, given []string, names *regexp.Regexp) {
	t.Helper()
	rest := p.Text
	for _, s := range sentences {
		p.hold(t, s)
		rest = strings.ReplaceAll(rest, s.Says, "")
	}
	for _, part := range given {
		if !strings.Contains(p.Text, part) {
			t.Errorf("%s does not say %q any more: remove it from the list of what is given", p.Path, part)
		}
		rest = strings.ReplaceAll(rest, part, "")
	}
	rest = names.ReplaceAllString(rest, "")
	for _, place := range regexp.MustCompile(`[0-9]+`).FindAllStringIndex(rest, -1) {
		from := max(0, place[0]-60)
		to := min(len(rest), place[1]+60)
		t.Errorf("%s has a number that nothing holds: …%s…", p.Path, rest[from:to])
	}
}

// hold fails unless the page says the sentence, and each of its figures is the value's.
func (p Page) hold(t *testing.T, sentence Sentence) {
	t.Helper()
	if !strings.Contains(p.Text, sentence.Says) {
		t.Errorf("%s does not say %q", p.Path, sentence.Says)
	}
	for _, f := range sentence.Figures {
		if !strings.Contains(sentence.Says, f.Text) {
			t.Errorf("%q does not have the figure %q", sentence.Says, f.Text)
		}
		if !f.holds() {
			t.Errorf("%q: %s is %v by the results", sentence.Says, f.Text, f.Value)
		}
	}
}
