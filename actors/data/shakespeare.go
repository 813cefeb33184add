package data

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

// openShakespeare reads Project Gutenberg's Complete Works (etext 100), as
// text or zipped, and prepares it as LEAF does.
func openShakespeare(name string, f io.ReaderAt, size int64, opt federated.Options) (*windows, error) {
	text, err := worksText(f, size)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	s, err := newWindows(speakingRoles(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	s.info.Digest = opt.Digest("shakespeare", sha256.Sum256(text))
	return s, nil
}

// worksText is the plain text, out of its zip where it is in one.
func worksText(f io.ReaderAt, size int64) ([]byte, error) {
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

// role is all that one character says in one play.
type role struct {
	name string
	text []byte
}

const (
	byline = "by William Shakespeare"
	// The plays end at this line; what follows are poems.
	lastLine = 124_196
	// The one play whose text is not indented.
	unindented = "THE COMEDY OF ERRORS"
)

// speakingRoles takes plays and roles from the text, in order of appearance.
// The rules are LEAF's: a play begins with its byline, and its title stands
// two to seven lines above; a speech begins with an indented name and a full
// stop, and goes on with lines that are indented further. Plays with a single
// role are no plays, and a role needs three lines.
func speakingRoles(text []byte) []role {
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
	var roles []role
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
					roles = append(roles, role{name: name})
				}
				for _, line := range s.lines {
					roles[i].text = append(append(roles[i].text, line...), ' ')
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
		roles[i].text = squeeze(roles[i].text)
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

// windows is the Set of next-character prediction: sample i of a role is the
// window characters from its place i, its label the character after them. The
// text is kept once; windows overlap in it and are never expanded.
type windows struct {
	info  federated.Info
	names []string
	start []int   // of client c's text
	train []int32 // windows that client c trains on, from its start
	pool  []int   // held-out windows before client c; one more than clients
	text  []uint8 // vocabulary indices
}

// inSequence splits the n windows of a role: the first nine tenths train, then
// come window-1 that would overlap both parts, the rest is held out (paper/
// NOTES, "Data"). Where nothing is left to hold out, held is below 1.
func InSequence(n int) (train, held int) {
	train = 9 * n / 10
	return train, n - train - (federated.ShakespeareWindow - 1)
}

// newWindows splits each role; one without either part is left out.
func newWindows(roles []role) (*windows, error) {
	if len(roles) == 0 {
		return nil, fmt.Errorf("no play found; want Project Gutenberg's Complete Works of William Shakespeare (etext 100)")
	}
	s := &windows{info: federated.ShakespeareInfo, pool: []int{0}}
	s.info.Name = "shakespeare (gutenberg)"
	without, total := 0, 0
	for _, r := range roles {
		n := max(0, len(r.text)-federated.ShakespeareWindow)
		if n > 0 {
			total++
		}
		train, held := InSequence(n)
		if held < 1 {
			without++
			continue
		}
		s.names = append(s.names, r.name)
		s.start = append(s.start, len(s.text))
		s.train = append(s.train, int32(train))
		s.pool = append(s.pool, s.pool[len(s.pool)-1]+held)
		for i, c := range r.text {
			if federated.ShakespeareIndex[c] == 0xff {
				return nil, fmt.Errorf("%s: character %q at place %d is not in the vocabulary of %d", r.name, c, i, len(federated.ShakespeareCharacters))
			}
			s.text = append(s.text, federated.ShakespeareIndex[c])
		}
	}
	if len(s.names) == 0 {
		return nil, errors.New("no role has windows both to train on and to hold out")
	}
	s.info.AddNote("%d roles without training or held-out windows left out", without)
	return s, nil
}

func (s *windows) TaskName() string { return "shakespeare" }

// Info describes the set.
func (s *windows) Info() federated.Info { return s.info }

// Clients is the number of roles.
func (s *windows) Clients() int { return len(s.names) }

// Client names a role, as LEAF does: play and character.
func (s *windows) Client(c int) string { return s.names[c] }

// Samples is the number of training windows of client c.
func (s *windows) Samples(c int) int { return int(s.train[c]) }

// Batch appends training windows of client c.
func (s *windows) Batch(dst *learn.Batch, c int, samples []int32) error {
	if c < 0 || c >= len(s.names) {
		return fmt.Errorf("data: %s: client %d of %d", s.info.Name, c, len(s.names))
	}
	for _, i := range samples {
		if i < 0 || i >= s.train[c] {
			return fmt.Errorf("data: %s: sample %d of client %d, which has %d", s.info.Name, i, c, s.train[c])
		}
		federated.AppendWindow(dst, s.text[s.start[c]+int(i):])
	}
	return nil
}

// HeldOut is the number of held-out windows of all roles.
func (s *windows) HeldOut() int { return s.pool[len(s.names)] }

// HeldOutBatch appends held-out windows, role by role.
func (s *windows) HeldOutBatch(dst *learn.Batch, from, n int) error {
	if from < 0 || n < 0 || from > s.HeldOut()-n {
		return fmt.Errorf("data: %s: held-out samples %d to %d of %d", s.info.Name, from, from+n, s.HeldOut())
	}
	c, _ := slices.BinarySearch(s.pool, from+1)
	for i := from; i < from+n; i++ {
		for i >= s.pool[c] {
			c++
		}
		federated.AppendWindow(dst, s.text[s.start[c-1]+int(s.train[c-1])+federated.ShakespeareWindow-1+i-s.pool[c-1]:])
	}
	return nil
}

// Close releases nothing: the text is in memory.
func (s *windows) Close() error { return nil }

func init() {
	Readers.Register("shakespeare", "Project Gutenberg's Shakespeare as text or zip", Shakespeare{})
}

// Shakespeare reads Project Gutenberg's Complete Works (etext 100).
type Shakespeare struct{}

// Recognises implements [Reader].
func (Shakespeare) Recognises(s *Source) Match {
	if s.isZip() && zippedTweets(s.File, s.Size) == nil || strings.HasPrefix(s.Head, "The Project Gute") {
		return ByContent
	}
	return NoMatch
}

// Open implements [Reader].
func (Shakespeare) Open(s *Source, o federated.Options) (federated.Set, error) {
	return openShakespeare(s.Path, s.File, s.Size, o)
}

// Memory is the size of the text and the index of its windows in bytes.
func (s *windows) Memory() int {
	return len(s.text) + 4*len(s.train) + 8*len(s.start) + 8*len(s.pool)
}
