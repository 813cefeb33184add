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

// TestParse_ColonInPlainText has texts with colons in a list in brackets, which are numbers in part or have spaces
// before a colon, and what YAML 1.2 reads of them. An empty want stands for a map.
func TestParse_ColonInPlainText(t *testing.T) {
	for text, want := range map[string]string{
		"1:30":            "1:30",
		"12:30:45":        "12:30:45",
		"1.5:30":          "1.5:30",
		"a:1":             "a:1",
		"a:b:c":           "a:b:c",
		"true:x":          "true:x",
		"ä:ö":             "ä:ö",
		"a :b":            "a :b",
		"http://host:80/": "http://host:80/",
		"1: 30":           "",
		"a: b":            "",
		"{a: b}":          "",
	} {
		for _, list := range []string{"[" + text + "]", "[first, " + text + ", last]"} {
			root, err := Parse("c.yaml", []byte("list: "+list+"\n"))
			if err != nil {
				t.Errorf("%s: %v", list, err)
				continue
			}
			items := root.Fields["list"].Items
			item := items[len(items)/2]
			isMap := item.Kind == Map
			if isMap != (want == "") || item.Text != want || !isMap && item.Quoted {
				t.Errorf("%s is read as %+v, want %q", list, item, want)
			}
		}
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
