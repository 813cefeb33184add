package table

import (
	"slices"
	"strings"
	"testing"
)

// A list of a mapping is written as a row of CSV.
func TestMap_Lists(t *testing.T) {
	for text, want := range map[string][]string{
		"a,b":               {"a", "b"},
		"a, b":              {"a", "b"},
		`"height, cm", b`:   {"height, cm", "b"},
		`"said ""so""",px*`: {`said "so"`, "px*"},
	} {
		r, err := Map(nil, []string{"features=" + text, "label=a,b"})
		if err != nil {
			t.Fatal(err)
		}
		if own := r.(Table); !slices.Equal(own.Features, want) || own.Label != "a,b" {
			t.Errorf("%s: %q and %q, want %q", text, own.Features, own.Label, want)
		}
	}
	if _, err := Map(nil, []string{`features="a,b`}); err == nil || !strings.Contains(err.Error(), "is no list with commas between its parts, and double quotes around a part that has some") {
		t.Error(err)
	}
	if _, err := Map(nil, []string{"features=a", "label=y", "features=b"}); err == nil || err.Error() != "features is there twice; want one, and a list with commas between its parts" {
		t.Error(err)
	}
}
