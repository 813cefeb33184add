package text

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"

	"fedpace/actors/data/federated"
	"fedpace/actors/learn"
)

// maxWorks bounds the text of the Complete Works; it has 5.6 MB.
const maxWorks = 64 << 20

func init() {
	federated.Readers.Register("shakespeare", "Project Gutenberg's Shakespeare as text or zip", Shakespeare{})
}

// Shakespeare reads Project Gutenberg's Complete Works (etext 100), as text or
// zipped, and prepares it as LEAF does.
type Shakespeare struct{}

func (Shakespeare) Recognises(s *federated.Source) federated.Match {
	if s.IsZip() && ZippedTweets(s.File, s.Size) == nil || strings.HasPrefix(s.Head, "The Project Gute") {
		return federated.ByContent
	}
	return federated.NoMatch
}

func (Shakespeare) Open(s *federated.Source, o federated.Options) (federated.Set, error) {
	text, err := WorksText(o.Reading.At(s.File), s.Size)
	if err != nil {
		return nil, err
	}
	set, err := NewWindows(SpeakingRoles(text))
	if err != nil {
		return nil, err
	}
	set.About.Digest = o.Digest("shakespeare", sha256.Sum256(text))
	return set, nil
}

// WorksText is the plain text, out of its zip where it is in one.
func WorksText(f io.ReaderAt, size int64) ([]byte, error) {
	in := io.Reader(io.NewSectionReader(f, 0, size))
	var head [4]byte
	if _, err := f.ReadAt(head[:], 0); err == nil && string(head[:]) == "PK\x03\x04" {
		entry, err := zipEntry(f, size, func(name string) bool { return strings.HasSuffix(name, ".txt") })
		if err != nil {
			return nil, err
		}
		text, err := entry.Open()
		if err != nil {
			return nil, err
		}
		defer text.Close()
		in = text
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

// zipEntry opens the first entry whose name, without folders and in lower case,
// is right.
func zipEntry(f io.ReaderAt, size int64, right func(name string) bool) (*zip.File, error) {
	z, err := zip.NewReader(f, size)
	if err != nil {
		return nil, fmt.Errorf("truncated or damaged zip: %w", err)
	}
	var names []string
	for _, entry := range z.File {
		if right(strings.ToLower(path.Base(entry.Name))) {
			return entry, nil
		}
		names = append(names, entry.Name)
	}
	return nil, fmt.Errorf("the zip holds %q, want the text of Project Gutenberg's etext 100", names)
}

// Role is all that one character says in one play.
type Role struct {
	Name  string
	Text  []byte
	lines int
}

func (r *Role) say(line string) {
	r.Text = append(append(r.Text, line...), ' ')
	r.lines++
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
	var bylines []int
	for i, line := range lines {
		if strings.Contains(line, byline) && i <= lastLine {
			bylines = append(bylines, i)
		}
	}
	if len(bylines) < 2 {
		return nil
	}
	var roles []Role
	var names federated.Names
	for k, from := range bylines[1:] { // before the second stand the contents and the sonnets
		to := min(len(lines), lastLine+1)
		if k+2 < len(bylines) {
			to = bylines[k+2]
		}
		title := titleAbove(lines, from)
		for _, s := range speeches(lines[from+1:to], title == unindented) {
			name := roleName(title, s.Name)
			i := names.Number(name)
			if i == len(roles) {
				roles = append(roles, Role{Name: name})
			}
			roles[i].Text = append(roles[i].Text, s.Text...)
		}
	}
	for i := range roles {
		roles[i].Text = spaces.ReplaceAllLiteral(roles[i].Text, []byte(" "))
	}
	return roles
}

// speeches takes the roles of a play, which is flat where it is not indented.
func speeches(lines []string, flat bool) (play []Role) {
	speaker := regexp.MustCompile(`^  ([A-Za-z][A-Za-z ]*)\. (.*)$`)
	if flat {
		speaker = regexp.MustCompile(`^([A-Za-z][A-Za-z ]*)\. (.*)$`)
	}
	var names federated.Names
	var current *Role
	for _, line := range lines {
		if parts := speaker.FindStringSubmatch(line); parts != nil {
			name, speech := strings.ToUpper(parts[1]), parts[2]
			current = nil
			if flat && strings.HasPrefix(name, "ACT ") {
				continue
			}
			i := names.Number(name)
			if i == len(play) {
				play = append(play, Role{Name: name})
			}
			current = &play[i]
			current.say(speech)
			continue
		}
		rest, indented := strings.CutPrefix(line, "    ")
		switch {
		case current == nil:
		case flat && strings.HasPrefix(line, "<"): // a notice of the publisher
			current = nil
		case flat:
			current.say(line)
		case indented:
			current.say(rest)
		}
	}
	if len(play) < 2 {
		return nil
	}
	return slices.DeleteFunc(play, func(r Role) bool { return r.lines <= 2 })
}

func titleAbove(lines []string, i int) string {
	for above := 2; above <= 7 && above <= i; above++ {
		if title := strings.TrimSpace(lines[i-above]); title != "" {
			return title
		}
	}
	return ""
}

// roleName joins play and character as LEAF names its users: whatever is not a
// letter, a digit or an underscore becomes one underscore.
func roleName(play, character string) string {
	return notWord.ReplaceAllString(strings.ReplaceAll(play+"_"+character, " ", "_"), "_")
}

var (
	notWord = regexp.MustCompile(`[^0-9A-Z_a-z]+`)
	spaces  = regexp.MustCompile(` +`)
)

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
	without := 0
	for _, r := range roles {
		train, held := InSequence(max(0, len(r.Text)-federated.ShakespeareWindow))
		if held < 1 {
			without++
			continue
		}
		s.Names = append(s.Names, r.Name)
		s.Starts = append(s.Starts, len(s.Text))
		s.Train = append(s.Train, int32(train))
		s.Pool = append(s.Pool, s.Pool[len(s.Pool)-1]+held)
		var err error
		if s.Text, err = federated.AppendCharacters(s.Text, string(r.Text), len(r.Text)); err != nil {
			return nil, fmt.Errorf("%s: %w", r.Name, err)
		}
	}
	if len(s.Names) == 0 {
		return nil, errors.New("no role has windows both to train on and to hold out")
	}
	s.About.AddNote("%d roles without training or held-out windows left out", without)
	return s, nil
}

// The clients are roles, named as LEAF does: play and character.

func (s *Windows) TaskName() string     { return "shakespeare" }
func (s *Windows) Info() federated.Info { return s.About }
func (s *Windows) Clients() int         { return len(s.Names) }
func (s *Windows) Client(c int) string  { return s.Names[c] }
func (s *Windows) Samples(c int) int    { return int(s.Train[c]) }
func (s *Windows) HeldOut() int         { return s.Pool[len(s.Names)] }
func (s *Windows) Close() error         { return nil }

func (s *Windows) Batch(dst *learn.Batch, c int, samples []int32) error {
	if err := federated.CheckSamples(s, c, samples); err != nil {
		return err
	}
	for _, i := range samples {
		s.append(dst, s.Starts[c]+int(i))
	}
	return nil
}

// HeldOutBatch appends held-out windows, role by role.
func (s *Windows) HeldOutBatch(dst *learn.Batch, from, n int) error {
	if err := federated.CheckHeldOut(s, from, n); err != nil {
		return err
	}
	c, _ := slices.BinarySearch(s.Pool, from+1)
	for i := from; i < from+n; i++ {
		for i >= s.Pool[c] {
			c++
		}
		s.append(dst, s.heldOut(c-1, i))
	}
	return nil
}

func (s *Windows) append(dst *learn.Batch, from int) {
	dst.Tokens = append(dst.Tokens, s.Text[from:][:federated.ShakespeareWindow]...)
	dst.Labels = append(dst.Labels, int32(s.Text[from+federated.ShakespeareWindow]))
	dst.N++
}

func (s *Windows) Memory() int {
	return len(s.Text) + 4*len(s.Train) + 8*len(s.Starts) + 8*len(s.Pool)
}

// Row is the place in the text at which window i of client c begins.
func (s *Windows) Row(c int, i int32) int32 { return int32(s.Starts[c]) + i }

// HeldOutRow is the place of held-out window i.
func (s *Windows) HeldOutRow(i int) int32 {
	c, _ := slices.BinarySearch(s.Pool, i+1)
	return int32(s.heldOut(c-1, i))
}

// heldOut is the place in the text of held-out window i, which is one of client c.
func (s *Windows) heldOut(c, i int) int {
	return s.Starts[c] + int(s.Train[c]) + federated.ShakespeareWindow - 1 + i - s.Pool[c]
}
