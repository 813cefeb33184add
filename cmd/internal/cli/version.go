package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"fedpace/learn"
)

// Version returns the version of this build: that of the module, which includes the commit that it
// was built from, or that commit alone, or "development".
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return unknownVersion
	}
	return versionOf(info)
}

// unknownVersion is the version of a build that says nothing of its source, such as a test.
const unknownVersion = "development"

// versionOf returns the version of the build that info describes: that of the module, or else the
// first twelve digits of the commit of its checkout, with "+dirty" where files were changed.
func versionOf(info *debug.BuildInfo) string {
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	version := unknownVersion
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && s.Value != "":
			version = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			version += "+dirty"
		}
	}
	return version
}

// addVersion adds the flag --version to the program root, and returns args with the command
// "version" in the place of that flag. Cobra's own flag needs a template, and a program with
// templates keeps all methods of all types, which makes it a third larger.
func addVersion(root *cobra.Command, args []string) []string {
	root.Flags().Bool("version", false, "print the version")
	if len(args) == 1 && args[0] == "--version" {
		return []string{"version"}
	}
	return args
}

// VersionCommand makes the command "version", which prints the version. program is the name of the
// program, which is printed before it.
func VersionCommand(program string) *cobra.Command {
	c := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  " + program + " version --json",
		RunE: func(c *cobra.Command, _ []string) error {
			if AsJSON(c) {
				// The kernel class decides the last bits of results, so it belongs to the version.
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
				}{
					Version(),
					runtime.Version(),
					runtime.GOOS + "/" + runtime.GOARCH,
					kernel.Class(),
					kernel.Instructions(),
				})
			}
			_, err := fmt.Fprintln(c.OutOrStdout(), program+" "+Version())
			return err
		},
	}
	JSONFlag(c, "")
	return c
}
