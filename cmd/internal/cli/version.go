package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"fedpace/actors/learn"
)

// Version names this build: the module's version, which has the commit that it was
// built from.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "development"
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
				kernel, err := learn.SelectKernel(learn.AutoKernel)
				if err != nil {
					return err
				}
				return PrintJSON(c, struct {
					Version string `json:"version"`
					Go      string `json:"go"`
					System  string `json:"system"`
					Kernel  string `json:"kernel"`
					By      string `json:"instructions"`
				}{Version(), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH, kernel.Class(), kernel.Instructions()})
			}
			_, err := fmt.Fprintln(c.OutOrStdout(), program+" "+Version())
			return err
		},
	}
	JSONFlag(c, &asJSON, "the version, Go's, the system, the kernel class and what computes it")
	return c
}
