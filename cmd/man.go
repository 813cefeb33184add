package cmd

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"fedpace/cmd/internal/cli"
	"fedpace/internal/atomicfile"
	"fedpace/internal/names"
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
			_, err = fmt.Fprintf(c.OutOrStdout(), "%d pages in %s\n", n, names.Printable(args[0]))
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
	name := filepath.Join(dir, pageOf(c)+".1")
	return pages + 1, atomicfile.Write(name, func(w io.Writer) error {
		_, err := io.WriteString(w, manual(c))
		return err
	})
}

// pageOf returns the name of a command's manual page without its section, as in fedpace-run.
func pageOf(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// manual returns the manual page of a command, in the language of man(7). A page has no date, which
// would change it with each build.
func manual(c *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(
		&b,
		".nh\n.TH \"%s\" \"1\" \"\" \"fedpace %s\" \"fedpace\"\n",
		strings.ToUpper(pageOf(c)),
		cli.Version(),
	)
	// section writes a section whose tables and line breaks stay.
	section := func(title, text string) {
		text = strings.Trim(text, "\n")
		if text != "" {
			fmt.Fprintf(&b, ".SH %s\n.EX\n%s\n.EE\n", title, troff(text))
		}
	}
	fmt.Fprintf(&b, ".SH NAME\n%s\n", troff(pageOf(c)+" - "+c.Short))
	section("SYNOPSIS", c.UseLine())
	section("DESCRIPTION", cmp.Or(c.Long, c.Short))
	section("OPTIONS", c.LocalFlags().FlagUsages())
	section("OPTIONS OF ALL COMMANDS", c.InheritedFlags().FlagUsages())
	section("EXAMPLE", c.Example)
	// The page of the program itself also has the sections for all commands together.
	if !c.HasParent() {
		section("EXIT STATUS", "0    success\n1    failure\n2    a command line that cannot be understood\n"+
			"3    something expected was missed\n4    evaluate.target was never reached\n"+
			"5    no update counted in any round\n130  interrupted: stopped cleanly, can be resumed")
		section("ENVIRONMENT", "NO_COLOR  set to anything: no colours on a terminal")
	}
	// The pages of the commands above and below this one.
	var also []string
	if c.HasParent() {
		also = append(also, pageOf(c.Parent())+"(1)")
	}
	for _, below := range c.Commands() {
		if !below.Hidden {
			also = append(also, pageOf(below)+"(1)")
		}
	}
	fmt.Fprintf(&b, ".SH SEE ALSO\n%s\n", troff(strings.Join(also, ", ")))
	return b.String()
}

// troff writes a text so that troff shows it as it is: a backslash begins an escape, a hyphen may
// become another sign, and a point or a quote at the beginning of a line makes a request of it.
func troff(text string) string {
	text = strings.NewReplacer("\\", `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
