package policies

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"

	"fedpace/config"
	"fedpace/experiment/folder"
	"fedpace/internal/regular"
	"fedpace/metrics"
)

// File is where a run keeps the decisions of its policies: a line of JSON each.
const File = folder.PoliciesFile

func init() {
	metrics.Sinks.Register("policies", "what policies in Python decided, in "+File, Sink{})
}

// Sink is the output that writes the decisions of policies into the run's folder; it has no
// options.
type Sink struct{}

// Files returns the name of the only file that this output writes.
func (Sink) Files() []string { return []string{File} }

// Open makes the run's log, which has no file until it is started.
func (Sink) Open(*metrics.Run) (metrics.Output, error) { return &Log{}, nil }

// Log is the record of one run's decisions, which [Set.Record] takes once it has started. It is an
// output of the run, and a writer of lines.
type Log struct{ file metrics.File }

// Round implements [metrics.Output]: decisions are written as they are made.
func (l *Log) Round(*metrics.Round) error { return nil }

// Start implements [metrics.Starter]: it opens the file of decisions in the run's folder, where new
// lines come behind those that are there.
func (l *Log) Start(s *metrics.Start) (err error) {
	l.file, err = s.Append(File)
	return err
}

// Write appends a line, which must end with a newline. The log must have been started.
func (l *Log) Write(line []byte) (int, error) { return l.file.Write(line) }

const (
	// maxLine bounds a line of the log, in bytes.
	maxLine = 32 << 20
	// maxReadBytes bounds how much of the end of a log is read for a run that goes on, in bytes.
	maxReadBytes = 64 << 20
)

// Remember reads the decisions of the run in a folder, so that a question that was asked there
// already gets the same answer without its policy. Policies whose questions come with vectors are asked again, since
// the log has no more than a digest of vectors. Remember is for a run that goes on or is replayed. Of a long log only
// the last maxReadBytes bytes are read, and a last line that a crash tore off is left out. A folder without decisions
// is no error.
func (s *Set) Remember(dir string) error {
	if s == nil {
		return nil
	}
	// Of equal questions the last answer counts.
	err := readLog(dir, maxReadBytes, func(d *decision) error {
		s.remembered[d.key()] = d
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// readLog reads the decisions in a folder's log, in the order in which they were made, and hands
// each to visit, whose error ends the reading. Only those that lie wholly in the last tailBytes bytes of
// the file are read. An error of [fs.ErrNotExist] says that there is no log.
func readLog(dir string, tailBytes int64, visit func(*decision) error) error {
	path := filepath.Join(dir, File)
	f, info, err := regular.Open(path)
	if err != nil {
		return err
	}
	// The file is only read, so nothing can be lost when it is closed.
	defer f.Close()
	skipped := max(0, info.Size()-tailBytes)
	if _, err := f.Seek(skipped, io.SeekStart); err != nil {
		return err
	}
	lines := bufio.NewScanner(f)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	lines.Split(wholeLines)
	for number := 1; lines.Scan(); number++ {
		// The first line is torn where the file was not read from its beginning.
		if number == 1 && skipped > 0 {
			continue
		}
		d := &decision{}
		decoder := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(d); err != nil {
			return fmt.Errorf("%s:%d: it is no decision of a policy: %w", path, number, err)
		}
		if err := visit(d); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// wholeLines is a [bufio.SplitFunc] that returns each line without its newline. Text at the end of
// the file without a newline is dropped: a crash has torn it off.
func wholeLines(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i], nil
	}
	if atEOF {
		return len(data), nil, nil
	}
	return 0, nil, nil
}

// Verified is what was found when the policies of a run were asked their questions again.
type Verified struct {
	// Asked is how many decisions were asked again and answered as before.
	Asked int `json:"asked"`
	// Unasked is how many of the decisions that were read were not asked again: those with vectors, which
	// the record does not hold, and those before the last maxVerified ones.
	Unasked int `json:"unasked"`
	// Difference says which decision came out otherwise, "" if none did.
	Difference string `json:"difference,omitempty"`
}

// maxVerified is how many decisions are asked again, the last ones of a run.
const maxVerified = 200_000

// Verify asks the policies of the run in a folder the questions in the last maxReadBytes bytes of its record
// again, at most maxVerified, in new processes, from the last to the first, and with another order of sets.
// Questions with vectors are left out. c is the run's configuration. It stops at the first answer that
// differs from the recorded one, and returns what it found; the error is for policies that cannot be asked.
//
// A policy that is a function answers as it did. One that keeps something between two questions,
// draws numbers without a seed, or goes by the clock does not.
func Verify(ctx context.Context, dir string, c *config.Config) (v Verified, err error) {
	var decisions []*decision
	if err := readLog(dir, maxReadBytes, func(d *decision) error {
		// The record has only a digest of vectors, so their question cannot be asked again.
		if d.Vectors != "" {
			v.Unasked++
			return nil
		}
		decisions = append(decisions, d)
		return nil
	}); err != nil {
		return v, err
	}
	// A policy that depends on the order of a set answers otherwise with another seed of hashes.
	s, err := open(ctx, c, nil, "PYTHONHASHSEED=1")
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	// The other order reveals policies whose answers depend on what they were asked before.
	slices.Reverse(decisions)
	v.Unasked += max(0, len(decisions)-maxVerified)
	for _, d := range decisions[:min(len(decisions), maxVerified)] {
		// Each decision names its policy by the key of the component.
		i := slices.IndexFunc(s.askers, func(a *asker) bool { return a.key == d.Policy })
		if i < 0 {
			return v, fmt.Errorf("%s holds a decision of %s, and the configuration has no such policy", File, d.Policy)
		}
		answer, err := s.askers[i].program.ask(ctx, d.Method, d.Question, nil)
		if err != nil {
			return v, err
		}
		// One difference shows that the policy is no function, so the rest need not be asked.
		if !equalJSON(answer, d.Answer) {
			v.Difference = fmt.Sprintf(
				"%s is not deterministic: %s answered %.100s to %.200s, and now %.100s (a policy is a function of "+
					"its question: no clock, no random numbers but of now.seed, nothing kept)",
				s.askers[i].program.name(), d.Method, d.Answer, d.Question, answer)
			return v, nil
		}
		v.Asked++
	}
	return v, nil
}

// equalJSON reports whether two texts of JSON have the same value, whatever their spaces and the
// order of the keys of objects. Texts that are no JSON are equal only byte by byte.
func equalJSON(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	return reflect.DeepEqual(x, y)
}
