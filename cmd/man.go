package cmd

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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
		Args: one("the folder for the pages"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o777); err != nil {
				return err
			}
			n := 0
			for _, of := range pagesOf(c.Root()) {
				name := strings.ReplaceAll(of.CommandPath(), " ", "-") + ".1"
				if err := os.WriteFile(filepath.Join(args[0], name), manual(of), 0o666); err != nil {
					return err
				}
				n++
			}
			_, err := fmt.Fprintf(c.OutOrStdout(), "%d pages in %s\n", n, args[0])
			return err
		},
		ValidArgsFunction: cli.OneFolder,
	}
}

// pagesOf lists the commands and topics that have a page, from the root down.
func pagesOf(c *cobra.Command) []*cobra.Command {
	if c.Hidden {
		return nil
	}
	list := []*cobra.Command{c}
	for _, below := range c.Commands() {
		list = append(list, pagesOf(below)...)
	}
	return list
}

// manual is a command's page in the macros of man(7).
func manual(c *cobra.Command) []byte {
	var b bytes.Buffer
	section := func(name string) { fmt.Fprintf(&b, ".SH %s\n", name) }
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"fedpace %s\" \"fedpace\"\n", strings.ToUpper(strings.ReplaceAll(c.CommandPath(), " ", `\-`)), roff(cli.Version()))
	section("NAME")
	fmt.Fprintf(&b, "%s \\- %s\n", roff(strings.ReplaceAll(c.CommandPath(), " ", "-")), roff(c.Short))
	if c.Runnable() {
		section("SYNOPSIS")
		fmt.Fprintf(&b, ".B %s\n", roff(c.UseLine()))
	}
	section("DESCRIPTION")
	about := c.Long
	if about == "" {
		about = c.Short
	}
	asIs(&b, about)
	c.InitDefaultHelpFlag()
	if flags := c.Flags(); c.Runnable() && flags.HasAvailableFlags() {
		section("OPTIONS")
		flags.VisitAll(func(f *pflag.Flag) { option(&b, f) })
	}
	if c.Example != "" {
		section("EXAMPLES")
		asIs(&b, c.Example)
	}
	if !c.HasParent() {
		section("EXIT STATUS")
		asIs(&b, "0    success\n1    failure\n2    a command line that cannot be understood\n130  interrupted: stopped cleanly, can be resumed")
		section("ENVIRONMENT")
		asIs(&b, "NO_COLOR  set to anything: no colours on a terminal")
	}
	seeAlso(&b, c)
	return b.Bytes()
}

func option(b *bytes.Buffer, f *pflag.Flag) {
	if f.Hidden {
		return
	}
	kind, about := pflag.UnquoteUsage(f)
	b.WriteString(".TP\n.B ")
	if f.Shorthand != "" {
		b.WriteString(`\-` + f.Shorthand + ", ")
	}
	b.WriteString(roff("--" + f.Name))
	if kind != "" {
		b.WriteString(" " + roff(strings.ToUpper(kind)))
	}
	b.WriteString("\n" + roff(about))
	if d := f.DefValue; d != "" && d != "false" && d != "[]" && d != "0" {
		b.WriteString(" (default: " + roff(strings.Trim(d, "[]")) + ")")
	}
	b.WriteString("\n")
}

// seeAlso names the page above and those below.
func seeAlso(b *bytes.Buffer, c *cobra.Command) {
	var names []string
	page := func(of *cobra.Command) {
		names = append(names, ".BR "+roff(strings.ReplaceAll(of.CommandPath(), " ", "-"))+" (1)")
	}
	if c.HasParent() {
		page(c.Parent())
	}
	for _, below := range c.Commands() {
		if !below.Hidden {
			page(below)
		}
	}
	if len(names) > 0 {
		b.WriteString(".SH SEE ALSO\n" + strings.Join(names, ",\n") + "\n")
	}
}

// asIs keeps lines as they are: the texts hold tables.
func asIs(b *bytes.Buffer, text string) {
	b.WriteString(".nf\n")
	for line := range strings.Lines(text) {
		b.WriteString(roff(strings.TrimSuffix(line, "\n")) + "\n")
	}
	b.WriteString(".fi\n")
}

// roff escapes what troff reads as its own: backslashes, hyphens, and a dot or
// an apostrophe that begins a line.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}
