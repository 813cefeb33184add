package folders

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"fedpace/cmd/internal/cli"
	"fedpace/experiment/folder"
	"fedpace/experiment/study"
	"fedpace/internal/human"
)

// RmCommand is fedpace rm.
func RmCommand() *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use:   "rm RUN...",
		Short: "Remove runs",
		Long: `Remove the runs in folders: the files that they have written, and the folders if
nothing else is in them. A folder of several runs, such as a comparison's, is
removed with all of them. A run that is still going on is refused, and then
nothing is removed.

On a terminal the command asks first. Elsewhere it wants --force.`,
		Example: `  fedpace rm runs/demo-2
  fedpace rm --force runs/compare`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("rm wants at least one folder of a run, e.g. fedpace rm runs/demo")
			}
			return nil
		},
		ValidArgsFunction: cli.Folders,
		RunE: func(c *cobra.Command, args []string) error {
			var runs []string
			for _, dir := range args {
				found, err := folder.Find(dir, listDepth, maxListed)
				if err != nil {
					return err
				}
				if len(found) == 0 {
					return fmt.Errorf("%s holds no run: neither it nor a folder in it has a %s", dir, folder.ConfigFile)
				}
				runs = append(runs, found...)
			}
			for _, dir := range runs {
				if folder.Running(dir) {
					return fmt.Errorf("%s: %w (stop it first)", dir, folder.ErrRunning)
				}
			}
			if sure, err := agreed(c, runs, force); err != nil || !sure {
				return err
			}
			return remove(c, args, runs)
		},
	}
	c.Flags().BoolVar(&force, "force", false, "do not ask")
	return c
}

// agreed asks whether runs are to be removed, unless force is set.
func agreed(c *cobra.Command, runs []string, force bool) (bool, error) {
	if force {
		return true, nil
	}
	if !cli.Asks(c) {
		return false, cli.Usage(c, errors.New("nobody can be asked here: say --force to remove runs without a question"))
	}
	what := fmt.Sprintf("%d runs", len(runs))
	if len(runs) == 1 {
		o := folder.Look(runs[0])
		what = fmt.Sprintf("%s (%s, %s %s)", runs[0], o.State, human.Thousands(int64(o.Rounds)), human.Plural(o.Rounds, "round"))
	}
	if _, err := fmt.Fprintf(c.ErrOrStderr(), "Remove %s? [y/N] ", what); err != nil {
		return false, err
	}
	answer, _ := bufio.NewReader(c.InOrStdin()).ReadString('\n') // no answer is no
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes", nil
}

// remove removes runs, and what commands of many runs left in the folders that were given.
func remove(c *cobra.Command, given, runs []string) error {
	left := map[string][]string{}
	for _, dir := range runs {
		names, err := folder.Remove(dir)
		if err != nil {
			return err
		}
		if left[dir] = names; len(names) == 0 {
			delete(left, dir)
		}
	}
	for _, dir := range given {
		if _, err := os.Stat(dir); err != nil || left[filepath.Clean(dir)] != nil {
			continue // it was a run itself
		}
		for _, name := range study.Files {
			if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
		names, err := folder.RemoveEmpty(dir)
		if err != nil {
			return err
		}
		if len(names) > 0 {
			left[dir] = names
		}
	}
	for _, dir := range append(runs, given...) {
		if names := left[filepath.Clean(dir)]; names != nil {
			delete(left, filepath.Clean(dir))
			if _, err := fmt.Fprintf(c.ErrOrStderr(), "%s stays: other files are in it (%s)\n", dir, strings.Join(names[:min(3, len(names))], ", ")); err != nil {
				return err
			}
		}
	}
	_, err := fmt.Fprintf(c.OutOrStdout(), "%d %s removed\n", len(runs), human.Plural(len(runs), "run"))
	return err
}
