package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"fedpace/actors/learn"
)

// Version names this build: the module's version, or the commit it was built
// from.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	if v == "" || v == "(devel)" {
		v = "development"
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				v += " " + s.Value
			}
			if s.Key == "vcs.modified" && s.Value == "true" {
				v += " (modified)"
			}
		}
	}
	return v
}

// VersionCommand prints the version of the program of this name.
func VersionCommand(program string) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  " + program + " version\n  " + program + " version --json",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if asJSON {
				return PrintJSON(c, struct {
					Version string `json:"version"`
					Go      string `json:"go"`
					System  string `json:"system"`
					Kernel  string `json:"kernel"`
				}{Version(), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH, learn.Kernel()})
			}
			_, err := fmt.Fprintln(c.OutOrStdout(), program+" "+Version())
			return err
		},
	}
	JSONFlag(c, &asJSON, "the version, Go's, the system and the class of kernels")
	return c
}
