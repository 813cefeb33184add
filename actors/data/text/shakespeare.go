package text

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"fedpace/actors/data/federated"
	"fedpace/actors/learn"
)

// maxWorks bounds the text of the Complete Works; it has 5.6 MB.
const maxWorks = 64 << 20

// OpenShakespeare reads Project Gutenberg's Complete Works (etext 100), as
// text or zipped, and prepares it as LEAF does.
func OpenShakespeare(name string, f io.ReaderAt, size int64, opt federated.Options) (*Windows, error) {
	text, err := WorksText(f, size)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	s, err := NewWindows(SpeakingRoles(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	s.About.Digest = opt.Digest("shakespeare", sha256.Sum256(text))
	return s, nil
}

// WorksText is the plain text, out of its zip where it is in one.
func WorksText(f io.ReaderAt, size int64) ([]byte, error) {
	in := io.Reader(io.NewSectionReader(f, 0, size))
	var head [4]byte
	if _, err := f.ReadAt(head[:], 0); err == nil && string(head[:]) == "PK\x03\x04" {
		z, err := zip.NewReader(f, size)
		if err != nil {
			return nil, fmt.Errorf("truncated or damaged zip: %w", err)
		}
		var names []string
		in = nil
		for _, entry := range z.File {
			names = append(names, entry.Name)
			if strings.EqualFold(path.Ext(entry.Name), ".txt") && in == nil {
				text, err := entry.Open()
				if err != nil {
					return nil, fmt.Errorf("zip: %s: %w", entry.Name, err)
				}
				defer text.Close()
				in = text
			}
		}
		if in == nil {
			return nil, fmt.Errorf("the zip holds %q, want the text of Project Gutenberg's etext 100", names)
		}
	}
	text, err := io.ReadAll(io.LimitReader(in, maxWorks+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("truncated or damaged: %w", err)
	case len(text) > maxWorks:
		return nil, fmt.Errorf("more than %d bytes of text; want Project Gutenberg's etext 100", maxWorks)
	}
	return bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")), nil
}

// Role is all that one character says in one play.
type Role struct {
	Name string
	Text []byte
}

const (
	byline = "by William Shakespeare"
	// The plays end at this line; what follows are poems.
	lastLine = 124_196
	// The one play whose text is not indented.
	unindented = "THE COMEDY OF ERRORS"
)

// SpeakingRoles takes plays and roles from the text, in order of appearance.
// The rules are LEAF's: a play begins with its byline, and its title stands
// two to seven lines above; a speech begins with an indented name and a full
// stop, and goes on with lines that are indented further. Plays with a single
// role are no plays, and a role needs three lines.
func SpeakingRoles(text []byte) []Role {
	lines := strings.Split(string(text), "\n")
	// Before the second byline stand the contents and the sonnets.
	start, bylines := 0, 0
	for i, line := range lines {
		if strings.Contains(line, byline) {
			if bylines++; bylines == 2 {
				start = i
				break
			}
		}
	}
	if bylines < 2 {
		return nil
	}
	type speeches struct {
		lines []string
		name  string
	}
	var roles []Role
	index := make(map[string]int)
	var play []*speeches
	var current *speeches
	var title string
	finish := func() {
		if len(play) > 1 {
			for _, s := range play {
				if len(s.lines) <= 2 {
					continue
				}
				name := roleName(title, s.name)
				i, ok := index[name]
				if !ok {
					i = len(roles)
					index[name] = i
					roles = append(roles, Role{Name: name})
				}
				for _, line := range s.lines {
					roles[i].Text = append(append(roles[i].Text, line...), ' ')
				}
			}
		}
		play, current = nil, nil
	}
	for i := start; i < len(lines) && i <= lastLine; i++ {
		line := lines[i]
		if strings.Contains(line, byline) {
			finish()
			title = titleAbove(lines, i)
			continue
		}
		flat := title == unindented
		if name, speech, ok := speaker(line, flat); ok {
			name = strings.ToUpper(name)
			if flat && strings.HasPrefix(name, "ACT ") {
				current = nil
				continue
			}
			current = nil
			for _, s := range play {
				if s.name == name {
					current = s
				}
			}
			if current == nil {
				current = &speeches{name: name}
				play = append(play, current)
			}
			current.lines = append(current.lines, speech)
			continue
		}
		if current == nil {
			continue
		}
		switch rest, indented := strings.CutPrefix(line, "    "); {
		case flat && strings.HasPrefix(line, "<"): // a notice of the publisher
			current = nil
		case flat:
			current.lines = append(current.lines, line)
		case indented:
			current.lines = append(current.lines, rest)
		}
	}
	finish()
	for i := range roles {
		roles[i].Text = squeeze(roles[i].Text)
	}
	return roles
}

func titleAbove(lines []string, i int) string {
	for above := 2; above <= 7 && above <= i; above++ {
		if title := strings.TrimSpace(lines[i-above]); title != "" {
			return title
		}
	}
	return ""
}

// speaker parts "  Name. speech".
func speaker(line string, flat bool) (name, speech string, ok bool) {
	if !flat {
		if line, ok = strings.CutPrefix(line, "  "); !ok {
			return "", "", false
		}
	}
	name, speech, ok = strings.Cut(line, ".")
	if !ok || !strings.HasPrefix(speech, " ") || name == "" || name[0] == ' ' {
		return "", "", false
	}
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != ' ' {
			return "", "", false
		}
	}
	return name, speech[1:], true
}

// roleName joins play and character as LEAF names its users: whatever is not a
// letter, a digit or an underscore becomes one underscore.
func roleName(play, character string) string {
	var b strings.Builder
	gap := false
	for _, c := range strings.ReplaceAll(play+"_"+character, " ", "_") {
		word := c == '_' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
		if word {
			b.WriteRune(c)
		} else if !gap {
			b.WriteByte('_')
		}
		gap = !word
	}
	return b.String()
}

// squeeze makes one space of several, in place.
func squeeze(text []byte) []byte {
	out := text[:0]
	for i, c := range text {
		if c != ' ' || i == 0 || text[i-1] != ' ' {
			out = append(out, c)
		}
	}
	return out
}

// Windows is the Set of next-character prediction: sample i of a role is the
// window characters from its place i, its label the character after them. The
// text is kept once; windows overlap in it and are never expanded.
type Windows struct {
	About  federated.Info
	Names  []string
	Starts []int   // of client c's text
	Train  []int32 // windows that client c trains on, from its start
	Pool   []int   // held-out windows before client c; one more than clients
	Text   []uint8 // vocabulary indices
}

// InSequence splits the n windows of a role: the first nine tenths train, then
// come window-1 that would overlap both parts, the rest is held out (paper/
// NOTES, "Data"). Where nothing is left to hold out, held is below 1.
func InSequence(n int) (train, held int) {
	train = 9 * n / 10
	return train, n - train - (federated.ShakespeareWindow - 1)
}

// NewWindows splits each role; one without either part is left out.
func NewWindows(roles []Role) (*Windows, error) {
	if len(roles) == 0 {
		return nil, fmt.Errorf("no play found; want Project Gutenberg's Complete Works of William Shakespeare (etext 100)")
	}
	s := &Windows{About: federated.ShakespeareInfo, Pool: []int{0}}
	s.About.Name = "shakespeare (gutenberg)"
	without, total := 0, 0
	for _, r := range roles {
		n := max(0, len(r.Text)-federated.ShakespeareWindow)
		if n > 0 {
			total++
		}
		train, held := InSequence(n)
		if held < 1 {
			without++
			continue
		}
		s.Names = append(s.Names, r.Name)
		s.Starts = append(s.Starts, len(s.Text))
		s.Train = append(s.Train, int32(train))
		s.Pool = append(s.Pool, s.Pool[len(s.Pool)-1]+held)
		for i, c := range r.Text {
			if federated.ShakespeareIndex[c] == 0xff {
				return nil, fmt.Errorf("%s: character %q at place %d is not in the vocabulary of %d", r.Name, c, i, len(federated.ShakespeareCharacters))
			}
			s.Text = append(s.Text, federated.ShakespeareIndex[c])
		}
	}
	if len(s.Names) == 0 {
		return nil, errors.New("no role has windows both to train on and to hold out")
	}
	s.About.AddNote("%d roles without training or held-out windows left out", without)
	return s, nil
}

func (s *Windows) TaskName() string { return "shakespeare" }

// Info describes the set.
func (s *Windows) Info() federated.Info { return s.About }

// Clients is the number of roles.
func (s *Windows) Clients() int { return len(s.Names) }

// Client names a role, as LEAF does: play and character.
func (s *Windows) Client(c int) string { return s.Names[c] }

// Samples is the number of training windows of client c.
func (s *Windows) Samples(c int) int { return int(s.Train[c]) }

// Batch appends training windows of client c.
func (s *Windows) Batch(dst *learn.Batch, c int, samples []int32) error {
	if c < 0 || c >= len(s.Names) {
		return fmt.Errorf("data: %s: client %d of %d", s.About.Name, c, len(s.Names))
	}
	for _, i := range samples {
		if i < 0 || i >= s.Train[c] {
			return fmt.Errorf("data: %s: sample %d of client %d, which has %d", s.About.Name, i, c, s.Train[c])
		}
		federated.AppendWindow(dst, s.Text[s.Starts[c]+int(i):])
	}
	return nil
}

// HeldOut is the number of held-out windows of all roles.
func (s *Windows) HeldOut() int { return s.Pool[len(s.Names)] }

// HeldOutBatch appends held-out windows, role by role.
func (s *Windows) HeldOutBatch(dst *learn.Batch, from, n int) error {
	if from < 0 || n < 0 || from > s.HeldOut()-n {
		return fmt.Errorf("data: %s: held-out samples %d to %d of %d", s.About.Name, from, from+n, s.HeldOut())
	}
	c, _ := slices.BinarySearch(s.Pool, from+1)
	for i := from; i < from+n; i++ {
		for i >= s.Pool[c] {
			c++
		}
		federated.AppendWindow(dst, s.Text[s.Starts[c-1]+int(s.Train[c-1])+federated.ShakespeareWindow-1+i-s.Pool[c-1]:])
	}
	return nil
}

// Close releases nothing: the text is in memory.
func (s *Windows) Close() error { return nil }

// Memory is the size of the text and the index of its windows in bytes.
func (s *Windows) Memory() int {
	return len(s.Text) + 4*len(s.Train) + 8*len(s.Starts) + 8*len(s.Pool)
}
