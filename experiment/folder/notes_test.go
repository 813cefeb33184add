package folder

import (
	"os"
	"slices"
	"strings"
	"testing"

	"fedpace/config"
)

// Notes come back as they were written; what is too much or no tag is refused and changes nothing, and
// notes that cannot be read leave the tags of the configuration.
func TestNotes(t *testing.T) {
	r := &Run{Dir: t.TempDir(), Config: config.Config{Tags: []string{"first"}}}
	if got := r.Notes(); !slices.Equal(got.Tags, []string{"first"}) || got.Text != "" {
		t.Errorf("without notes: %+v", got)
	}
	want := Notes{Tags: []string{"good", "night"}, Text: strings.Repeat("<", maxText)} // the longest in the file
	if err := r.WriteNotes(want); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []Notes{{Text: strings.Repeat("x", maxText+1)}, {Text: "\xff"}, {Tags: []string{"two words"}}, {Tags: make([]string, maxTags+1)}} {
		if err := r.WriteNotes(wrong); err == nil {
			t.Errorf("%.40q is taken", wrong)
		}
	}
	if got := r.Notes(); !slices.Equal(got.Tags, want.Tags) || got.Text != want.Text {
		t.Errorf("notes are %+v, want %+v", got, want)
	}
	if err := os.WriteFile(r.Path(NotesFile), []byte(`{"tags": ["torn`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := r.Notes(); !slices.Equal(got.Tags, []string{"first"}) {
		t.Errorf("of torn notes: %+v", got)
	}
}
