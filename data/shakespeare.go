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

// maxWorks bounds the text of the Complete Works in bytes; the real one has 5.6 MB.
const maxWorks = 64 << 20

func init() {
	federated.Readers.Register("shakespeare", "Project Gutenberg's Shakespeare as text or zip", Shakespeare{})
}

// Shakespeare reads Project Gutenberg's Complete Works (etext 100), as text or
// zipped, and prepares it as LEAF does.
type Shakespeare struct{}

// Recognises reports whether s is Project Gutenberg's text, or a zip archive that may hold it: any archive that
// holds no table of tweets, which the reader Sent140 takes.
func (Shakespeare) Recognises(s *federated.Source) federated.Match {
	isText := strings.HasPrefix(s.Head, "The Project Gute")
	isPackedText := s.IsZip() && zippedTweets(s.File, s.Size) == nil
	if isText || isPackedText {
		return federated.ByContent
	}
	return federated.NoMatch
}

// Open makes a client of each speaking role, whose samples are windows of its lines. Each window of
// 80 characters predicts the character behind it.
func (Shakespeare) Open(s *federated.Source, o federated.Options) (federated.Set, error) {
	text, err := worksText(o.Reading.Counted(s.File), s.Size)
	if err != nil {
		return nil, err
	}
	set, err := newWindows(speakingRoles(text))
	if err != nil {
		return nil, err
	}
	set.About.Identify(o, "shakespeare", sha256.Sum256(text))
	return set, nil
}

// worksText returns the plain text of the file f of size bytes, unpacked if it is a zip archive,
// with LF as line break. A text of more than maxWorks bytes is an error.
func worksText(f io.ReaderAt, size int64) ([]byte, error) {
	in := io.Reader(io.NewSectionReader(f, 0, size))
	var head [4]byte
	// The four bytes begin each zip archive.
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
	// One byte more than the limit shows that there is too much.
	text, err := io.ReadAll(io.LimitReader(in, maxWorks+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("truncated or damaged: %w", err)
	case len(text) > maxWorks:
		return nil, fmt.Errorf("more than %d bytes of text; want Project Gutenberg's etext 100", maxWorks)
	}
	return bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")), nil
}

// zipEntry returns the first entry of the zip archive f of size bytes for whose name isWanted is true.
// isWanted gets the name in lower case without its folders. It is an error if no entry fits.
func zipEntry(f io.ReaderAt, size int64, isWanted func(name string) bool) (*zip.File, error) {
	z, err := zip.NewReader(f, size)
	if err != nil {
		return nil, fmt.Errorf("truncated or damaged zip: %w", err)
	}
	var names []string
	for _, entry := range z.File {
		if isWanted(strings.ToLower(path.Base(entry.Name))) {
			return entry, nil
		}
		names = append(names, entry.Name)
	}
	return nil, fmt.Errorf("the zip holds %q, want the text of Project Gutenberg's etext 100", names)
}

// role is a character of a play with all that it says there.
type role struct {
	// Name is the name of the character, later with that of the play.
	Name string
	// Text has the lines one after another, with a space behind each.
	Text []byte
	// lines counts the lines.
	lines int
}

// addLine adds a line of the play to what the role speaks, with a space behind it.
func (r *role) addLine(line string) {
	r.Text = append(append(r.Text, line...), ' ')
	r.lines++
}

const (
	// byline stands below the title of each play.
	byline = "by William Shakespeare"
	// lastLine is the line at which the plays end; poems follow.
	lastLine = 124_196
	// unindented is the title of the one play whose text is not indented.
	unindented = "THE COMEDY OF ERRORS"
)

// speakingRoles returns the roles of all plays in the text, in order of appearance. The rules are
// LEAF's: a play begins with its byline, and its title stands two to seven lines above; a speech
// begins with an indented name and a full stop, and goes on with lines that are indented further. A
// play with a single role does not count, and a role needs three lines (rolesOf leaves out both).
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
	// The contents and the sonnets stand before the second byline.
	for k, bylineLine := range bylines[1:] {
		end := min(len(lines), lastLine+1)
		if k+2 < len(bylines) {
			end = bylines[k+2]
		}
		// Roles of one name in different plays are different clients.
		title := titleAbove(lines, bylineLine)
		isFlat := title == unindented
		for _, s := range rolesOf(lines[bylineLine+1:end], isFlat) {
			name := roleName(title, s.Name)
			i := names.Number(name)
			if i == len(roles) {
				roles = append(roles, role{Name: name})
			}
			roles[i].Text = append(roles[i].Text, s.Text...)
		}
	}
	for i := range roles {
		// Several spaces become one, as in LEAF.
		roles[i].Text = spaces.ReplaceAllLiteral(roles[i].Text, []byte(" "))
	}
	return roles
}

// rolesOf returns the roles of one play that have more than two lines, given the lines of the play. isFlat
// says that the play is printed without indents, by which other plays mark speakers and speeches. A play
// with fewer than two roles, whatever their lines, has none.
func rolesOf(lines []string, isFlat bool) (roles []role) {
	// A speech begins with the name of its speaker.
	speaker := regexp.MustCompile(`^  ([A-Za-z][A-Za-z ]*)\. (.*)$`)
	if isFlat {
		speaker = regexp.MustCompile(`^([A-Za-z][A-Za-z ]*)\. (.*)$`)
	}
	var names federated.Names
	var current *role
	for _, line := range lines {
		if parts := speaker.FindStringSubmatch(line); parts != nil {
			name := strings.ToUpper(parts[1])
			speech := parts[2]
			current = nil
			// Without an indent, the head of an act looks like a speaker.
			if isFlat && strings.HasPrefix(name, "ACT ") {
				continue
			}
			i := names.Number(name)
			if i == len(roles) {
				roles = append(roles, role{Name: name})
			}
			current = &roles[i]
			current.addLine(speech)
			continue
		}
		speech, isIndented := strings.CutPrefix(line, "    ")
		switch {
		// No speech is under way.
		case current == nil:
		// A notice of the publisher ends a speech.
		case isFlat && strings.HasPrefix(line, "<"):
			current = nil
		case isFlat:
			current.addLine(line)
		case isIndented:
			current.addLine(speech)
		}
	}
	if len(roles) < 2 {
		return nil
	}
	return slices.DeleteFunc(roles, func(r role) bool { return r.lines <= 2 })
}

// titleAbove returns the title of the play whose byline is lines[i]: the first line that is not
// empty, two to seven lines above. It is "" if there is none.
func titleAbove(lines []string, i int) string {
	for above := 2; above <= 7 && above <= i; above++ {
		if title := strings.TrimSpace(lines[i-above]); title != "" {
			return title
		}
	}
	return ""
}

// roleName returns the name of a client from those of a play and a character, as LEAF names its
// users: each stretch of other signs than letters, digits and underscores becomes one underscore.
func roleName(play, character string) string {
	return notWord.ReplaceAllString(strings.ReplaceAll(play+"_"+character, " ", "_"), "_")
}

var (
	notWord = regexp.MustCompile(`[^0-9A-Z_a-z]+`)
	spaces  = regexp.MustCompile(` +`)
)

// inSequence splits the n windows of a role: it returns how many at the beginning train, nine
// tenths, and how many at the end are held out. Between them, window-1 that would overlap both
// parts are left out (paper/NOTES, "Data"). If nothing is left to hold out, held is below 1.
func inSequence(n int) (train, held int) {
	train = 9 * n / 10
	return train, n - train - (federated.ShakespeareWindow - 1)
}

// newWindows makes the set of all roles, each a client whose windows are split in sequence. A role
// without windows in both parts is left out, and a note says how many are.
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
	// room reserves memory for all windows at once, as growing would cost more than the rest.
	room := func() []int32 { return make([]int32, 0, size) }
	s := federated.Grouped{Task: "shakespeare", About: federated.ShakespeareInfo, Labels: room()}
	s.Rows = &federated.TextRows{Window: window, Starts: room()}
	s.About.Name = "shakespeare (gutenberg)"
	g := federated.Grouping{Train: room()}
	for _, r := range roles {
		// The number of windows is that of their labels, which begin a window's length into the
		// text.
		trainWindows, heldWindows := inSequence(max(0, len(r.Text)-window))
		if heldWindows < 1 {
			continue
		}
		text, err := federated.AppendCharacters(nil, string(r.Text), len(r.Text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.Name, err)
		}
		train, err := s.AddText(text[:trainWindows+window])
		if err != nil {
			return nil, err
		}
		// The held-out text begins with the label of the last training window, behind its input.
		held, err := s.AddText(text[trainWindows+window-1:])
		if err != nil {
			return nil, err
		}
		g.Add(r.Name, train, held)
	}
	if len(g.Names) == 0 {
		return nil, errors.New("no role has windows both to train on and to hold out")
	}
	s.About.AddNote("%d roles without training or held-out windows left out", len(roles)-len(g.Names))
	return g.Set(s)
}
