package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"fedpace/config"
	"fedpace/experiment/folder"
)

// Verification is what Verify found in the folder of a run.
type Verification struct {
	Dir      string `json:"folder"`
	Complete bool   `json:"complete"`
	// Damaged is the number of files that are not as they were written.
	Damaged int                `json:"damaged"`
	Files   []folder.FileState `json:"files"`
	// WayOut says what to do about the damage; it is empty if there is none.
	WayOut string `json:"way_out"`
}

// ErrNoDigests is wrapped by the error for a folder of which nothing says what its
// files held.
var ErrNoDigests = errors.New("nothing says what its files held")

// Verify compares the files in the folder of a run with their digests: those of
// summary.json if the run has ended, else those of its newest checkpoint, which say
// what the outputs held then. It changes nothing, and may be called while the run
// goes on.
func Verify(dir string) (*Verification, error) {
	folderErr := folder.HoldsRun(dir)
	summary, summaryErr := folder.ReadSummary(filepath.Join(dir, folder.SummaryFile))
	hasEnded := summaryErr == nil
	saved := ReadAll(dir)
	if folderErr != nil && !hasEnded && len(saved.Usable()) == 0 {
		return nil, folderErr
	}
	// A run that has ended is judged by its summary, any other by its newest usable checkpoint.
	digests := summary.Files
	if usable := saved.Usable(); !hasEnded && len(usable) > 0 {
		digests = usable[0].Body.Outputs
	}
	if len(saved) == 0 && errors.Is(summaryErr, fs.ErrNotExist) {
		return nil, fmt.Errorf(
			"%s: %w: it holds neither %s nor a checkpoint (fedpace resume %s starts the run again)",
			dir,
			ErrNoDigests,
			folder.SummaryFile,
			dir,
		)
	}
	v := &Verification{Dir: dir, Complete: summary.Completed}
	// The configuration comes first in the list: wayOut finds it at index 0.
	v.add(folder.ConfigFile, saved.checkConfiguration(dir, summary.Files))
	for _, d := range digests {
		if d.Name != folder.ConfigFile {
			v.Files = append(v.Files, d.Examine(dir, hasEnded))
		}
	}
	// A summary is absent while a run goes on, which is no damage.
	if !errors.Is(summaryErr, fs.ErrNotExist) {
		v.add(folder.SummaryFile, summaryErr)
	}
	for _, k := range saved {
		v.add(k.Name, k.err)
	}
	v.addOthers()
	for i := range v.Files {
		if v.Files[i].Bad() {
			v.Damaged++
		}
	}
	if v.Damaged > 0 {
		v.WayOut = v.wayOut(saved)
	}
	return v, nil
}

// add adds a file, which is intact unless err says what is wrong with it.
func (v *Verification) add(name string, err error) {
	s := folder.FileState{Name: name, State: folder.Intact}
	info, statErr := os.Stat(filepath.Join(v.Dir, name))
	if statErr == nil {
		s.Size = info.Size()
	}
	switch {
	case err != nil && errors.Is(statErr, fs.ErrNotExist):
		s.State = folder.Missing
		s.Problem = err.Error()
	case err != nil:
		s.State = folder.Damaged
		s.Problem = err.Error()
	}
	v.Files = append(v.Files, s)
}

// addOthers adds the run's files of which there is no digest, such as exports.
func (v *Verification) addOthers() {
	for _, name := range folder.Files() {
		listed := slices.ContainsFunc(v.Files, func(s folder.FileState) bool { return s.Name == name })
		if info, err := os.Stat(filepath.Join(v.Dir, name)); err == nil && !listed {
			v.Files = append(v.Files, folder.FileState{
				Name:    name,
				State:   folder.Unchecked,
				Size:    info.Size(),
				Problem: "there is no digest of it",
			})
		}
	}
}

// wayOut says what to do about damage, by the same rules by which Resume chooses a checkpoint.
func (v *Verification) wayOut(saved List) string {
	configuration := &v.Files[0]
	if usable := saved.Usable(); configuration.Bad() && len(usable) > 0 {
		return usable[0].ConfigWayOut(v.Dir)
	}
	if configuration.Bad() {
		return fmt.Sprintf("put %s right, then: fedpace resume %s", folder.ConfigFile, v.Dir)
	}
	for _, k := range saved {
		if folder.Refused(k.err) {
			return fmt.Sprintf("do what the line of %s says, then: fedpace resume %s", k.Name, v.Dir)
		}
		isBad := func(d folder.FileDigest) bool {
			s := d.Examine(v.Dir, folder.Ongoing)
			return s.Bad()
		}
		if k.err == nil && !slices.ContainsFunc(k.Body.Outputs, isBad) {
			return fmt.Sprintf("fedpace resume %s goes on from %s and writes again what follows it", v.Dir, k.Name)
		}
	}
	return PlayAgain(v.Dir)
}

// checkConfiguration compares config.yaml in dir with the usable checkpoints. While a run is stopped, keys that decide
// no result may be edited in it. digests has the digest of config.yaml as the run wrote it, if that is known.
//
// If the file is as it was written, or fits one of the checkpoints, it can be trusted: then each checkpoint that it
// does not fit is marked as one of another run (k.err). If it is changed and fits none, that is the error. Without
// usable checkpoints it must be as it was written, or at least be readable if there is no digest.
func (l List) checkConfiguration(dir string, digests []folder.FileDigest) error {
	usable := l.Usable()
	i := slices.IndexFunc(digests, func(d folder.FileDigest) bool { return d.Name == folder.ConfigFile })
	if len(usable) == 0 && i >= 0 {
		return digests[i].Examine(dir, folder.Ended).Err()
	}
	current, err := config.Load(filepath.Join(dir, folder.ConfigFile), nil)
	if err != nil {
		return err
	}
	var problems []error
	for _, k := range usable {
		// resumed is what the checkpoint would be resumed with.
		resumed := k.Head
		resumed.Config = string(current.YAML())
		problems = append(problems, k.Head.checkFits(resumed))
	}
	isAsWritten := i >= 0 && digests[i].Examine(dir, folder.Ended).State == folder.Intact
	// A nil among the problems is of a checkpoint that the configuration fits.
	fitsOne := len(problems) == 0 || slices.Contains(problems, nil)
	if !isAsWritten && !fitsOne {
		return problems[0]
	}
	for i, k := range usable {
		k.err = problems[i]
	}
	return nil
}

// CheckComplete reads the files of a run that is complete, and returns an error that names each one
// that is not as it was written.
func CheckComplete(dir string, s *folder.Summary) error {
	var problems []error
	for _, d := range s.Files {
		problems = append(problems, d.Examine(dir, folder.Ended).Err())
	}
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("the run in %s is complete, but %w: %w (%s)", dir, ErrDamaged, err, PlayAgain(dir))
	}
	return nil
}
