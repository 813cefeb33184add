package folder

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"fedpace/internal/atomicfile"
	"fedpace/internal/names"
	"fedpace/internal/regular"
)

// NotesFile holds what somebody says of a run, in its folder; the run does not know of it.
const NotesFile = "notes.json"

// Limits of notes.
const (
	maxNotes = 32 << 10 // bytes of the file, where each byte of a text may be written as six
	maxText  = 4000
	maxTags  = 32
)

// Notes are what somebody says of a run.
type Notes struct {
	Tags []string `json:"tags"`
	Text string   `json:"note"`
}

// Notes are those of the run; without any, or where they cannot be read, the tags of its configuration.
func (r *Run) Notes() (n Notes) {
	f, _, err := regular.Open(r.Path(NotesFile))
	if err != nil {
		return Notes{Tags: r.Config.Tags}
	}
	defer f.Close() // read only
	text, err := io.ReadAll(io.LimitReader(f, maxNotes))
	if errors.Join(err, json.Unmarshal(text, &n)) != nil {
		return Notes{Tags: r.Config.Tags}
	}
	return n
}

// WriteNotes replaces the run's notes.
func (r *Run) WriteNotes(n Notes) error {
	if len(n.Text) > maxText || !utf8.ValidString(n.Text) {
		return fmt.Errorf("a note is text of at most %d bytes", maxText)
	}
	if len(n.Tags) > maxTags {
		return fmt.Errorf("tags are %d, and a run has at most %d", len(n.Tags), maxTags)
	}
	for _, tag := range n.Tags {
		if err := names.CheckTag(tag); err != nil {
			return fmt.Errorf("tag %q: %w", tag, err)
		}
	}
	text, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return atomicfile.Write(r.Path(NotesFile), atomicfile.Bytes(append(text, '\n')))
}
