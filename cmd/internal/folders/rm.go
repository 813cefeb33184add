package folders

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"fedpace/cmd/internal/cli"
	"fedpace/experiment/folder"
	"fedpace/internal/human"
	"fedpace/study"
)

// RmCommand makes "fedpace rm", which removes runs. It looks at all folders before it removes the
// first, so that nothing is removed if one of the runs is still running.
func RmCommand() *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use:   "rm RUN...",
		Short: "Remove runs",
		Long: `Remove the runs in folders, and folders that are empty then; nothing if one is
running. On a terminal the command asks first; elsewhere it needs --force.`,
		Example: `  fedpace rm runs/demo-2
  fedpace rm --force runs/compare`,
		RunE: func(c *cobra.Command, args []string) error {
			t, err := targetsOf(c, args)
			if err != nil {
				return err
			}
			for _, dir := range t.runs {
				// If one of the runs is running, none is removed.
				if folder.Running(dir) {
					return fmt.Errorf("%s: %w (stop it first)", t.displayName(dir), folder.ErrRunning)
				}
			}
			// Without agreement nothing is removed, which is no error.
			agreed, err := t.confirm(c, force)
			if err == nil && agreed {
				err = t.remove(c)
			}
			return err
		},
	}
	c.Flags().BoolVar(&force, "force", false, "do not ask")
	return c
}

// targets are the runs to be removed. The paths are canonical, so that each folder is there once,
// however it was given, and they stay valid if the current folder is removed.
type targets struct {
	// currentDir is the current folder.
	currentDir string
	// runs are the folders of the runs, in the order in which they were given.
	runs []string
	// above are the folders around the runs, up to those that were given; inner ones come first.
	above []string
}

// targetsOf finds the runs in the folders given. It returns an error for a folder without a run and
// for a symbolic link, because removal through a link would surprise. Folders that cannot be read
// are noted on standard error by c.
func targetsOf(c *cobra.Command, given []string) (t targets, err error) {
	t.currentDir, err = folder.Canonical(".")
	if err != nil {
		return t, err
	}
	for _, dir := range given {
		// Lstat sees a symbolic link itself, not the folder that it leads to.
		info, err := os.Lstat(filepath.Clean(dir))
		if err != nil {
			return t, err
		}
		top, err := folder.Canonical(dir)
		if err != nil {
			return t, err
		}
		// The folder behind a link may be in use under its own name.
		if info.Mode()&os.ModeSymlink != 0 {
			return t, fmt.Errorf(
				"%s is a symbolic link to %s: nothing is removed through a link (name that folder)",
				dir,
				t.displayName(top),
			)
		}
		// A folder may be a run itself, or hold several.
		found, unread, err := folder.Find(top, folder.Levels, maxListed)
		if err != nil {
			return t, err
		}
		if err := printNotes(c, unread...); err != nil {
			return t, err
		}
		if len(found) == 0 {
			return t, fmt.Errorf("%s holds no run: neither it nor a folder in it has a %s", dir, folder.ConfigFile)
		}
		for _, run := range found {
			t.runs = append(t.runs, run)
			// A folder given for several runs is removed with them, if it is empty then.
			for parent := run; parent != top; {
				parent = filepath.Dir(parent)
				t.above = append(t.above, parent)
			}
		}
	}
	t.runs = folder.Distinct(t.runs)
	// In reverse order, a folder comes before the one that it lies in.
	slices.Sort(t.above)
	t.above = slices.Compact(t.above)
	slices.Reverse(t.above)
	return t, nil
}

// displayName returns the name of a folder for messages: relative to the current folder if it lies within
// that, otherwise in full. Signs that do not print are escaped.
func (t *targets) displayName(dir string) string {
	if name, err := filepath.Rel(t.currentDir, dir); err == nil && filepath.IsLocal(name) && name != "." {
		dir = name
	}
	return printable(dir)
}

// confirm asks whether the runs are to be removed and reports the answer. With force it does not
// ask. Where nobody can be asked, such as in a script, it returns an error that names the flag.
func (t *targets) confirm(c *cobra.Command, force bool) (bool, error) {
	if force {
		return true, nil
	}
	// A script must not wait for an answer that never comes.
	if !cli.CanAsk(c) {
		return false, cli.Usage(
			c,
			errors.New("nobody can be asked here: say --force to remove runs without a question"),
		)
	}
	subject := fmt.Sprintf("%d runs", len(t.runs))
	// A single run is described, so that the user sees what would be lost.
	if len(t.runs) == 1 {
		o := folder.Inspect(t.runs[0])
		subject = fmt.Sprintf(
			"%s (%s, %s %s)",
			t.displayName(o.Dir),
			o.State,
			human.Thousands(int64(o.Rounds)),
			human.Plural(o.Rounds, "round"),
		)
	}
	return cli.Confirmed(c, "Remove "+subject+"?")
}

// remove removes the runs, and then the files that commands of many runs left in the folders around
// them. A folder with other files stays, with a note on standard error. An interruption ends it
// between two runs.
func (t *targets) remove(c *cobra.Command) error {
	// noteRemaining notes on standard error that a folder is kept because of the files that remain in it.
	noteRemaining := func(dir string, remaining []string) (err error) {
		if len(remaining) > 0 {
			_, err = fmt.Fprintf(
				c.ErrOrStderr(),
				"%s stays: other files are in it (%s)\n",
				t.displayName(dir),
				printable(strings.Join(remaining[:min(3, len(remaining))], ", ")),
			)
		}
		return err
	}
	for n, dir := range t.runs {
		// A run is removed as a whole, so that an interruption leaves no half of one.
		if c.Context().Err() != nil {
			return cli.Interrupted{Note: fmt.Sprintf("%d of %d runs removed", n, len(t.runs))}
		}
		// Files that no run has written are never removed.
		remaining, err := folder.Remove(dir)
		if err := errors.Join(err, noteRemaining(dir, remaining)); err != nil {
			return err
		}
	}
	// Inner folders come first, so that an outer one may be empty when its turn comes.
	for _, dir := range t.above {
		// The tables and pages of a study are of no use without its runs.
		for _, name := range study.Files {
			if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
		remaining, err := folder.RemoveEmpty(dir)
		if err := errors.Join(err, noteRemaining(dir, remaining)); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(c.OutOrStdout(), "%d %s removed\n", len(t.runs), human.Plural(len(t.runs), "run"))
	return err
}
