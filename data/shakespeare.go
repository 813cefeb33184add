package data

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

	"fedpace/data/federated"
)

// maxWorks bounds the text of the Complete Works; it has 5.6 MB.
const maxWorks = 64 << 20

func init() {
	federated.Readers.Register("shakespeare", "Project Gutenberg's Shakespeare as text or zip", Shakespeare{})
}

// Shakespeare reads Project Gutenberg's Complete Works (etext 100), as text or
// zipped, and prepares it as LEAF does.
type Shakespeare struct{}

// Recognises knows Project Gutenberg's text, alone or as a zip archive.
func (Shakespeare) Recognises(s *federated.Source) federated.Match {
	if s.IsZip() && zippedTweets(s.File, s.Size) == nil || strings.HasPrefix(s.Head, "The Project Gute") {
		return federated.ByContent
	}
	return federated.NoMatch
}

// Open makes a client of each speaking role, whose samples are windows of its lines.
func (Shakespeare) Open(s *federated.Source, o federated.Options) (federated.Set, error) {
	text, err := worksText(o.Reading.Counted(s.File), s.Size)
	if err != nil {
		return nil, err
	}
	set, err := newWindows(speakingRoles(text))
	if err != nil {
		return nil, err
	}
	set.About.Digest = o.Digest("shakespeare", sha256.Sum256(text))
	return set, nil
}

// worksText is the plain text, out of its zip where it is in one.
func worksText(f io.ReaderAt, size int64) ([]byte, error) {
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

// role is all that one character says in one play.
type role struct {
	Name  string
	Text  []byte
	lines int
}

// say adds a line to what the role speaks.
func (r *role) say(line string) {
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

// speakingRoles takes plays and roles from the text, in order of appearance.
// The rules are LEAF's: a play begins with its byline, and its title stands
// two to seven lines above; a speech begins with an indented name and a full
// stop, and goes on with lines that are indented further. Plays with a single
// role are no plays, and a role needs three lines.
func speakingRoles(text []byte) []role {
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
	var roles []role
	var names federated.Names
	for k, bylineLine := range bylines[1:] { // before the second stand the contents and the sonnets
		end := min(len(lines), lastLine+1)
		if k+2 < len(bylines) {
			end = bylines[k+2]
		}
		title := titleAbove(lines, bylineLine)
		for _, s := range speeches(lines[bylineLine+1:end], title == unindented) {
			name := roleName(title, s.Name)
			i := names.Number(name)
			if i == len(roles) {
				roles = append(roles, role{Name: name})
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
func speeches(lines []string, flat bool) (play []role) {
	speaker := regexp.MustCompile(`^  ([A-Za-z][A-Za-z ]*)\. (.*)$`)
	if flat {
		speaker = regexp.MustCompile(`^([A-Za-z][A-Za-z ]*)\. (.*)$`)
	}
	var names federated.Names
	var current *role
	for _, line := range lines {
		if parts := speaker.FindStringSubmatch(line); parts != nil {
			name := strings.ToUpper(parts[1])
			speech := parts[2]
			current = nil
			if flat && strings.HasPrefix(name, "ACT ") {
				continue
			}
			i := names.Number(name)
			if i == len(play) {
				play = append(play, role{Name: name})
			}
			current = &play[i]
			current.say(speech)
			continue
		}
		speech, indented := strings.CutPrefix(line, "    ")
		switch {
		case current == nil:
		case flat && strings.HasPrefix(line, "<"): // a notice of the publisher
			current = nil
		case flat:
			current.say(line)
		case indented:
			current.say(speech)
		}
	}
	if len(play) < 2 {
		return nil
	}
	return slices.DeleteFunc(play, func(r role) bool { return r.lines <= 2 })
}

// titleAbove finds the title of a play in the lines above its list of roles; empty if there is
// none nearby.
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

// inSequence splits the n windows of a role: the first nine tenths train, then
// come window-1 that would overlap both parts, the rest is held out (paper/
// NOTES, "Data"). Where nothing is left to hold out, held is below 1.
func inSequence(n int) (train, held int) {
	train = 9 * n / 10
	return train, n - train - (federated.ShakespeareWindow - 1)
}

// newWindows splits each role; one without either part is left out.
func newWindows(roles []role) (*federated.Grouped, error) {
	if len(roles) == 0 {
		return nil, fmt.Errorf("no play found; want Project Gutenberg's Complete Works of William Shakespeare " +
			"(etext 100)")
	}
	const window = federated.ShakespeareWindow
	size := 0
	for _, r := range roles {
		size += len(r.Text)
	}
	room := func() []int32 { return make([]int32, 0, size) } // growing would cost more than the rest
	s := federated.Grouped{Task: "shakespeare", About: federated.ShakespeareInfo, Labels: room()}
	s.Rows = &federated.TextRows{Window: window, Starts: room()}
	s.About.Name = "shakespeare (gutenberg)"
	g := federated.Grouping{Train: room()}
	for _, r := range roles {
		n, held := inSequence(max(0, len(r.Text)-window))
		if held < 1 {
			continue
		}
		text, err := federated.AppendCharacters(nil, string(r.Text), len(r.Text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.Name, err)
		}
		train, err := s.AddText(text[:n+window])
		if err != nil {
			return nil, err
		}
		heldWindows, err := s.AddText(text[n+window-1:])
		if err != nil {
			return nil, err
		}
		g.Add(r.Name, train, heldWindows)
	}
	if len(g.Names) == 0 {
		return nil, errors.New("no role has windows both to train on and to hold out")
	}
	s.About.AddNote("%d roles without training or held-out windows left out", len(roles)-len(g.Names))
	return g.Set(s)
}
