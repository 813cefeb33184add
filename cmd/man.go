package cmd

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"fedpace/cmd/internal/cli"
	"fedpace/internal/atomicfile"
)

// manCommand makes "fedpace man", which writes a manual page for each command into a folder, its
// argument, as the program man reads them.
func manCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write the manual pages",
		Long:  "Write a manual page for each command into a folder, as man reads them.",
		Example: `  fedpace man /usr/local/share/man/man1
  fedpace man man && man -l man/fedpace-run.1`,
		Args: cli.OneArgument("the folder for the pages"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o777); err != nil {
				return err
			}
			// The topic's text is made on demand, and manual pages need it as the command's own.
			topic, _, err := c.Root().Find([]string{"configuration"})
			if err != nil {
				return err
			}
			topic.Long = configurationKeys()
			n, err := writeManual(c.Root(), args[0])
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "%d pages in %s\n", n, args[0])
			return err
		},
	}
}

// writeManual writes the manual pages of the command c and of those below it to the folder dir, the
// topics of help among them. It returns how many pages it wrote; hidden commands have none.
func writeManual(c *cobra.Command, dir string) (pages int, err error) {
	// The pages of the commands below come first.
	for _, below := range c.Commands() {
		if below.Hidden {
			continue
		}
		n, err := writeManual(below, dir)
		pages += n
		if err != nil {
			return pages, err
		}
	}
	c.Long = verbatim(cmp.Or(c.Long, c.Short))
	// The page of the program itself also has the sections for all commands together.
	if !c.HasParent() {
		c.Long += "\n# EXIT STATUS\n" + verbatim("0    success\n1    failure\n2    a command line that cannot be "+
			"understood\n"+
			"3    something expected was missed\n4    evaluate.target was never reached\n5    no update counted in "+
			"any round\n130  interrupted: stopped cleanly, can be resumed") +
			"\n# ENVIRONMENT\n" + verbatim("NO_COLOR  set to anything: no colours on a terminal")
	}
	// A date on the page would change it with each build.
	c.DisableAutoGenTag = true
	return pages + 1, atomicfile.Write(filepath.Join(dir, strings.ReplaceAll(c.CommandPath(), " ", "-")+".1"), func(w io.Writer) error {
		return doc.GenMan(c, &doc.GenManHeader{Section: "1", Source: "fedpace " + cli.Version(), Manual: "fedpace"}, w)
	})
}

// verbatim marks a text as a Markdown code block, since its tables and line breaks must stay.
func verbatim(text string) string { return "```\n" + text + "\n```\n" }
