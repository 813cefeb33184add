package cmd

import (
	"cmp"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"fedpace/cmd/internal/cli"
)

// manCommand writes the manual.
func manCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write the manual pages",
		Long:  "Write a manual page for each command into a folder, as man reads them.",
		Example: `  fedpace man /usr/local/share/man/man1
  fedpace man man && man -l man/fedpace-run.1`,
		Args: cli.One("the folder for the pages"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o777); err != nil {
				return err
			}
			topic, _, err := c.Root().Find([]string{"configuration"})
			if err != nil {
				return err
			}
			topic.Long = configurationKeys()
			root := c.Root()
			pages := manual(root)
			root.Long += "\n# EXIT STATUS\n" + verbatim("0    success\n1    failure\n2    a command line that cannot be understood\n"+
				"3    something expected was missed\n4    evaluate.target was never reached\n130  interrupted: stopped cleanly, can be resumed") +
				"\n# ENVIRONMENT\n" + verbatim("NO_COLOR  set to anything: no colours on a terminal")
			if err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "fedpace " + cli.Version(), Manual: "fedpace"}, args[0]); err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "%d pages in %s\n", pages, args[0])
			return err
		},
	}
}

// manual makes the help of a command, and of those below it, such that pages keep its lines, and returns how many there are.
func manual(c *cobra.Command) (pages int) {
	for _, below := range c.Commands() {
		if below.IsAvailableCommand() {
			pages += manual(below)
		}
	}
	c.Long, c.DisableAutoGenTag = verbatim(cmp.Or(c.Long, c.Short)), true
	return pages + 1
}

// verbatim is Markdown for lines that stay as they are: the texts hold tables.
func verbatim(text string) string { return "```\n" + text + "\n```\n" }
