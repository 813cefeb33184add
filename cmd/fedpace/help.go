package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"fedpace/experiment"
)

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  fedpace version",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(c.OutOrStdout(), "fedpace "+version())
			return err
		},
	}
}

// configurationTopic is a page of help: all keys with their meaning.
func configurationTopic() *cobra.Command {
	var b strings.Builder
	b.WriteString("The keys of a configuration file and of --set. The defaults of a task are those\n" +
		"of the paper's Tables 1 and 2; fedpace run --dry-run prints the values in use.\n\n")
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, k := range experiment.KnownKeys() {
		fmt.Fprintf(t, "  %s\t%s\n", k.Key, k.Help)
	}
	fmt.Fprint(t, "\nA class of devices, an entry of fleet, has these keys; what it does not give is that\nof all devices:\n\n")
	for _, k := range experiment.ClassKeys() {
		fmt.Fprintf(t, "  %s\t%s\n", k.Key, k.Help)
	}
	fmt.Fprint(t, "\nA distribution is one of\n\n")
	for _, d := range experiment.Distributions() {
		fmt.Fprintf(t, "  %s\t%s\n", d.Key, d.Help)
	}
	fmt.Fprint(t, "\neach with at_least and at_most as bounds, if wanted.\n")
	if err := t.Flush(); err != nil {
		panic("fedpace: a string builder does not fail")
	}
	return &cobra.Command{
		Use:   "configuration",
		Short: "All keys of a configuration",
		Long:  strings.TrimSpace(b.String()),
	}
}
