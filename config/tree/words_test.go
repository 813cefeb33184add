package tree

import (
	"strings"
	"testing"
)

func TestParse_ColonInList(t *testing.T) {
	root, err := Parse("c.yaml", []byte("data: {features: [a:b, c, \"d:e\", f: g]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	items := root.Fields["data"].Fields["features"].Items
	if len(items) != 4 || items[0].Text != "a:b" || items[1].Text != "c" || items[2].Text != "d:e" {
		t.Errorf("read as %+v", items)
	}
	if items[3].Kind != Map {
		t.Errorf("f: g is read as %+v, want a map", items[3])
	}
}

func TestParse_MistakesInWords(t *testing.T) {
	for text, want := range map[string]string{
		"stop:\n\trounds: 10\n":       "c.yaml:2: not YAML: a tab stands before a key",
		"task: femnist\nseed 3\n":     "c.yaml:2: not YAML: a line is no \"key: value\"",
		"stop:\n  rounds 1\n  a: 3\n": "c.yaml:2: not YAML: a line is no \"key: value\"",
	} {
		if _, err := Parse("c.yaml", []byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
