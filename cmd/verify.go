package cmd

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"fedpace/cmd/internal/cli"
	"fedpace/config"
	"fedpace/experiment/checkpoint"
	"fedpace/experiment/folder"
	"fedpace/experiment/policies"
	"fedpace/experiment/run"
	"fedpace/internal/human"
	"fedpace/internal/names"
)

// verifyCommand makes "fedpace verify", which compares the files of a run with their digests. It
// fails if a file is damaged or missing, so that scripts notice. The folder of the run is its
// argument.
func verifyCommand() *cobra.Command {
	trust := false
	c := &cobra.Command{
		Use:   "verify DIR",
		Short: "Check that the files of a run are those that it wrote",
		Long: `Compare the files of a run with the digests in summary.json or, if it was killed
or is running, in its newest checkpoint, and list each as ok, damaged, missing,
or unchecked (an export, without digest). If a file is damaged or missing, or
there are no digests, the command says what to do, and exits with 1.

With --trust a run of a Flower app is repeated, and policies in Python are asked
again. The command exits with 1 if one is not deterministic.`,
		Example: `  fedpace verify runs/demo
  fedpace verify runs/demo --json | jq '.files[] | select(.state != "ok")'`,
		RunE: func(c *cobra.Command, args []string) error {
			verification, err := checkpoint.Verify(args[0])
			if err != nil {
				return err
			}
			err = cli.PrintTable(c, verification, func(w io.Writer) {
				fmt.Fprintln(w, "file\tstate\tbytes\t")
				for _, f := range verification.Files {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", f.Name, f.State, human.Thousands(f.Size), f.Problem)
				}
			})
			// The table is printed in any case; only then damage fails the command.
			if err != nil {
				return err
			}
			// Policies are asked only if the files are those that the run wrote.
			if verification.Damaged == 0 {
				return verifyPolicies(c, args[0], trust)
			}
			return fmt.Errorf(
				"%s: %d of %d files are damaged or missing (%s)",
				verification.Dir,
				verification.Damaged,
				len(verification.Files),
				verification.WayOut,
			)
		},
	}
	cli.JSONFlag(c, "")
	trustFlag(c, &trust)
	return c
}

// verifyApp plays the Flower app of the run in folder dir again, whose configuration is loaded, and returns an
// error if the app does not repeat itself. Without trust it executes nothing and only says so. It prints what it
// did to the standard error of c.
func verifyApp(c *cobra.Command, dir string, loaded *config.Config, trust bool) error {
	if !trust {
		fmt.Fprintf(c.ErrOrStderr(), "The app was not played again: --trust executes %s.\n",
			names.Printable(loaded.Flower.App))
		return nil
	}
	messages, err := run.VerifyApp(c.Context(), dir, loaded)
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	fmt.Fprintf(
		c.ErrOrStderr(),
		"The app was played again: its %s, their replies, the times and the model are the same.\n",
		human.Thousands(int64(messages))+" "+human.Plural(messages, "message"),
	)
	return nil
}

// verifyPolicies asks the policies of the run in the folder dir again what they decided, and
// returns an error if one answers otherwise; a run of a Flower app is verified by [verifyApp] instead. Without
// trust it executes nothing and only says so. It prints what it did to the standard error of c. A run without
// policies has nothing to ask.
func verifyPolicies(c *cobra.Command, dir string, trust bool) error {
	loaded, err := config.Load(filepath.Join(dir, folder.ConfigFile), nil)
	if err == nil && loaded.PlaysFlower() {
		return verifyApp(c, dir, &loaded, trust)
	}
	if err != nil || !policies.Any(&loaded) {
		return err
	}
	// Nothing from the folder is executed without the user's consent.
	if !trust {
		fmt.Fprintf(c.ErrOrStderr(), "The policies were not asked again: --trust executes %s.\n",
			names.Printable(strings.Join(policies.Files(&loaded), ", ")))
		return nil
	}
	v, err := policies.Verify(c.Context(), dir, &loaded)
	if err != nil {
		return err
	}
	if v.Difference != "" {
		return fmt.Errorf("%s: %s", dir, v.Difference)
	}
	fmt.Fprintf(c.ErrOrStderr(), "The policies gave the same answers to %s again",
		human.Thousands(int64(v.Asked))+" "+human.Plural(v.Asked, "question"))
	// Questions about vectors cannot be repeated, because the run does not keep these.
	if v.Unasked > 0 {
		fmt.Fprintf(c.ErrOrStderr(), "; %d about vectors, which the run does not keep, were not asked", v.Unasked)
	}
	fmt.Fprintln(c.ErrOrStderr(), ".")
	return nil
}
