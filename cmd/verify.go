package cmd

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"fedpace/cmd/internal/cli"
	"fedpace/experiment/checkpoint"
	"fedpace/internal/human"
)

// verifyCommand makes "fedpace verify", which compares a run's files with their digests. It fails
// where a file is damaged or missing, so that scripts notice.
func verifyCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "verify DIR",
		Short: "Check that the files of a run are those that it wrote",
		Long: `Compare the files of a run with the digests in summary.json or, if it was killed or
goes on, in its newest checkpoint, and list each as ok, damaged, missing, or unchecked
(an export, of which there is no digest). It changes nothing. If a file is damaged or
missing, or there are no digests, the command says what to do, and exits with 1.`,
		Example: `  fedpace verify runs/demo
  fedpace verify runs/demo --json | jq '.files[] | select(.state != "ok")'`,
		RunE: func(c *cobra.Command, args []string) error {
			v, err := checkpoint.Verify(args[0])
			if err != nil {
				return err
			}
			err = cli.PrintTable(c, v, func(w io.Writer) {
				fmt.Fprintln(w, "file\tstate\tbytes\t")
				for _, f := range v.Files {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", f.Name, f.State, human.Thousands(f.Size), f.Problem)
				}
			})
			// The table is printed in any case; only then damage fails the command.
			if err != nil || v.Damaged == 0 {
				return err
			}
			return fmt.Errorf(
				"%s: %d of %d files are damaged or missing (%s)",
				v.Dir,
				v.Damaged,
				len(v.Files),
				v.WayOut,
			)
		},
	}
	cli.JSONFlag(c, "each file with its state")
	return c
}
