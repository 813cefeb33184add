package folder

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"fedpace/config"
	"fedpace/internal/atomicfile"
	"fedpace/metrics"
)

// The files of a run in its folder.
const (
	ConfigFile  = "config.yaml"
	RoundsFile  = "rounds.csv"
	SummaryFile = "summary.json"

	// What a run is exported to unless told otherwise.
	TraceFile       = "trace.pftrace"
	OpenMetricsFile = "openmetrics.txt"
)

// The files of a run that plays a Flower app, beside the usual ones.
const (
	// JournalFile holds the clients' replies while the run goes on, so that it can be resumed.
	JournalFile = "journal.log"
	// MessagesFile stands for the messages of the whole run and their replies, by which it can be verified.
	MessagesFile = "messages.sum"
	// AppLogFile has what the app's processes have printed.
	AppLogFile = "app.log"
	// AppFolder is the folder in which the app runs, and ResultFile holds the arrays of its result.
	AppFolder  = "files"
	ResultFile = "result.npz"
)

// Files lists the names of all files that a run may write, with those of every output that is
// registered and of those given. Any one of them shows that a folder holds a run.
func Files(sinks ...metrics.Sink) []string {
	return append(slices.Clone(runFiles), outputFiles(sinks)...)
}

// runFiles are the files that no output writes.
var runFiles = []string{
	ConfigFile, SummaryFile, PredictionFile, TraceFile, OpenMetricsFile, CheckpointFile, PreviousCheckpointFile,
	JournalFile, MessagesFile, AppLogFile, ResultFile,
}

// outputFiles lists the files of every output that is registered, and those of the outputs given. A
// registered output whose file an option names has no file here, because it has no options.
func outputFiles(sinks []metrics.Sink) (list []string) {
	for _, name := range metrics.Sinks.Names() {
		sink, _ := metrics.Sinks.Entry(name)
		list = append(list, sink.Files()...)
	}
	for _, s := range sinks {
		list = append(list, s.Files()...)
	}
	return slices.DeleteFunc(list, func(name string) bool { return name == "" })
}

// CheckFiles refuses outputs that would write a file outside of the run's folder, or one that
// another output or the run itself writes. It returns nil if there is none.
func CheckFiles(sinks []metrics.Sink) error {
	owner := map[string]string{}
	for _, name := range runFiles {
		owner[name] = "the run"
	}
	for _, s := range sinks {
		for _, name := range s.Files() {
			sink := metrics.Sinks.NameOf(s)
			isHidden := name == "" || name[0] == '.'
			isPath := filepath.Base(name) != name || !filepath.IsLocal(name)
			if isHidden || isPath {
				return fmt.Errorf("%s: %q is not the name of a file in the run's folder", sink, name)
			}
			if writer := owner[name]; writer != "" {
				return fmt.Errorf("%s: %s is written by %s already", sink, name, writer)
			}
			owner[name] = sink
		}
	}
	return nil
}

// ErrHoldsRun is wrapped by the error for a folder that already holds a run.
var ErrHoldsRun = errors.New("the folder already holds a run")

// Results is the folder that a run fills. It is not safe for concurrent use.
// After an error no further method but Close and Discard makes sense: the
// folder cannot be completed.
type Results struct {
	Store
	// unlock releases the lock of the folder; it is nil where the folder is not locked.
	unlock func() error
	// replaced are the digests of the files that are written whole.
	replaced []FileDigest
}

// CreateResults makes the folder, with the configuration in it. A folder that already
// holds a run is refused, unless force is set: then that run's files are removed
// first, and no others. A folder whose run is still going on is refused in any case.
// The folder is locked until Close, so that no other run can begin in it. On an error
// nothing stays behind.
func CreateResults(dir string, c config.Config, force bool) (_ *Results, err error) {
	if err := CheckSecrets(c); err != nil {
		return nil, err
	}
	if err := checkVacant(dir, force); err != nil {
		return nil, err
	}
	r := &Results{Store: Store{disk: system{}, dir: dir}}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Discard())
		}
	}()
	r.createdFolders, err = makeFolders(dir)
	if err != nil {
		return nil, fmt.Errorf("results: %w", err)
	}
	r.unlock, err = lockFolder(dir)
	if err != nil {
		return nil, err
	}
	// The check is repeated under the lock, because another run may have come and gone meanwhile.
	if err := checkVacant(dir, force); err != nil {
		return nil, err
	}
	if force {
		if err := r.remove(Files(c.Outputs...)...); err != nil {
			return nil, fmt.Errorf("results: cannot replace the run in %s: %w", dir, err)
		}
	}
	if err := r.removeLeftovers(); err != nil {
		return nil, err
	}
	// The configuration is there whole or not at all: from then on the folder holds
	// a run that can be resumed.
	return r, r.Replace(ConfigFile, atomicfile.Bytes(c.YAML()))
}

// VacantFolder returns nil if CreateResults would accept the folder, and otherwise why it would not, so
// that a command can refuse before it prepares anything.
func VacantFolder(dir string, force bool) error {
	if err := checkVacant(dir, force); err != nil {
		return err
	}
	if _, err := os.Lstat(filepath.Join(dir, lockFile)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	release, err := lockFolder(dir)
	if err != nil {
		return err
	}
	return release()
}

// ErrNoRun is wrapped by the error for a folder without a run's configuration.
var ErrNoRun = errors.New("holds no run")

// HoldsRun returns nil for a folder with a run's configuration. Without one the error wraps
// ErrNoRun; any other error is that of the system.
func HoldsRun(dir string) error {
	_, err := os.Stat(filepath.Join(dir, ConfigFile))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s %w: it has no %s", dir, ErrNoRun, ConfigFile)
	}
	return err
}

// Levels is how far below a folder commands look for runs: they stop at a run.
const Levels = 3

// Outside refuses a folder in which runs would lie within another run, where no list shows
// them, or within a file.
func Outside(dir string) error { return checkOutside(dir, Levels+1) }

// checkOutside returns an error if dir is a file or holds a run. levels is the number of folders that are checked:
// dir itself, the folder in which it lies, and so on.
func checkOutside(dir string, levels int) error {
	for range levels {
		if info, err := os.Stat(dir); err == nil && !info.IsDir() {
			return fmt.Errorf("results: %s is not a folder (choose another with --out)", dir)
		}
		if hasRun(dir) {
			return fmt.Errorf(
				"results: %s holds a run, and runs within it are in no list (choose another folder with --out)",
				dir,
			)
		}
		dir = filepath.Join(dir, "..")
	}
	return nil
}

// hasRun reports whether a folder holds a configuration and more of a run: without more,
// it may be a file of the user's.
func hasRun(dir string) bool {
	exists := func(name string) bool {
		_, err := os.Lstat(filepath.Join(dir, name))
		return err == nil
	}
	isOther := func(name string) bool { return name != ConfigFile && exists(name) }
	return exists(ConfigFile) && slices.ContainsFunc(append(Files(), lockFile), isOther)
}

// checkVacant refuses a folder into which no run may be written: a file, one within another run,
// and, unless force is set, one with files of a run. A folder that does not exist is vacant.
func checkVacant(dir string, force bool) error {
	if err := checkOutside(filepath.Join(dir, ".."), Levels); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("results: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("results: %s is not a folder (choose another with --out)", dir)
	}
	// With force the files of the old run are replaced.
	if force {
		return nil
	}
	for _, name := range Files() {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return occupiedError(dir, name)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("results: %w", err)
		}
	}
	return nil
}

// occupiedError is the error for a folder that has a file of a run: it says where that run stands.
func occupiedError(dir, name string) error {
	isCheckpoint := slices.Contains(Checkpoints, name)
	if HoldsRun(dir) != nil && isCheckpoint {
		return fmt.Errorf("results: %s holds %s, from which a run may go on: %w (fedpace resume %s, or choose another "+
			"folder with --out)", dir, name, ErrHoldsRun, dir)
	}
	if HoldsRun(dir) != nil {
		return fmt.Errorf(
			"results: %s holds %s, a file of a run: %w (choose another with --out, or replace it with --force)",
			dir,
			name,
			ErrHoldsRun,
		)
	}
	o := Inspect(dir)
	// A run that is still going on is not replaced, even with --force.
	if o.State == RunRunning {
		return &takenError{fmt.Sprintf("results: %s: wait, stop it, or choose another folder with --out", o.Sentence())}
	}
	advice := "choose another folder with --out"
	// A run that can go on is not to be thrown away. A replay cannot.
	hasEnded := o.State == RunComplete || o.State == RunDiverged
	if hasEnded || o.Config.Replayed() {
		advice += ", or replace the run with --force"
	}
	return &takenError{fmt.Sprintf("results: %s: %s", o.Sentence(), advice)}
}

// takenError is an [ErrHoldsRun] in words of its own.
type takenError struct{ text string }

func (e *takenError) Error() string { return e.text }
func (e *takenError) Unwrap() error { return ErrHoldsRun }

// makeFolders makes a folder and those above it that are missing, as os.MkdirAll does. It returns
// the folders that it made, outermost first, also with an error, so that the caller can remove
// them.
func makeFolders(dir string) (made []string, err error) {
	var missing []string
	for path := filepath.Clean(dir); ; path = filepath.Dir(path) {
		// The first folder that is there ends the search upwards.
		if _, err := os.Stat(path); err == nil {
			break
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		missing = append(missing, path)
	}
	for _, path := range slices.Backward(missing) {
		if err := os.Mkdir(path, 0o777); err == nil {
			made = append(made, path)
		} else if !errors.Is(err, fs.ErrExist) {
			return made, err
		}
	}
	return made, nil
}

// Replace implements [metrics.Folder]: write writes the new content of the file, which takes the
// place of the old one at once or not at all. After an error every later call fails, too.
func (r *Results) Replace(name string, write func(io.Writer) error) error {
	if r.failure != nil {
		return r.failure
	}
	// The file is noted first, so that it is removed if the run does not begin.
	r.created = append(r.created, name)
	digest := &digestWriter{sum: sha256.New()}
	if err := atomicfile.Write(
		r.Path(name),
		func(w io.Writer) error { return write(io.MultiWriter(w, digest)) },
	); err != nil {
		r.failure = aboutResults(err)
		return r.failure
	}
	// The digest of the new content takes the place of the old one.
	r.replaced = slices.DeleteFunc(r.replaced, func(d FileDigest) bool { return d.Name == name })
	r.replaced = append(r.replaced, FileDigest{name, digest.size, hexadecimal(digest.sum)})
	return nil
}

// Summary writes summary.json, last of all: a folder that has it is complete. It sets s.Files to the
// digests of the run's other files.
func (r *Results) Summary(s *Summary) error {
	if r.failure != nil {
		return r.failure
	}
	outputs, err := r.sync()
	var text []byte
	if err == nil {
		if s.Completed {
			// These files are removed by [Results.Complete], so no digest of them is kept.
			outputs = slices.DeleteFunc(outputs, func(d FileDigest) bool {
				return slices.ContainsFunc(r.outputs, func(a *appendFile) bool { return a.spool && a.name == d.Name })
			})
		}
		s.Files = slices.Concat(r.replaced, outputs)
		slices.SortFunc(s.Files, func(a, b FileDigest) int { return strings.Compare(a.Name, b.Name) })
		text, err = s.seal()
	}
	if err == nil {
		err = r.Replace(SummaryFile, atomicfile.Bytes(text))
	}
	if err == nil {
		// The other files must be on the disk before the checkpoints are removed.
		err = r.disk.SyncFolder(r.dir)
	}
	if err != nil {
		r.failure = aboutResults(err)
	}
	return r.failure
}

// Close ends the writing: it closes all outputs, keeps the folder as it is, and releases its lock.
// A second call does nothing.
func (r *Results) Close() error {
	err := r.closeOutputs()
	if r.unlock != nil {
		err = errors.Join(err, r.unlock())
		r.unlock = nil
	}
	return aboutResults(err)
}

// aboutResults says in an error that it is about the results; nil stays nil.
func aboutResults(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("results: %w", err)
}

// Discard removes what the run has written, for one that failed before it had
// anything to keep.
func (r *Results) Discard() error {
	err := errors.Join(r.closeOutputs(), aboutResults(r.remove(r.created...)), r.Close())
	for _, path := range slices.Backward(r.createdFolders) {
		if os.Remove(path) != nil {
			// Someone else's file is in the folder: then it stays, and so do the folders around it.
			break
		}
	}
	return err
}
