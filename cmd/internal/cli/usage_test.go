package cli

import (
	"testing"

	"github.com/spf13/cobra"
)

// Who gives a group a flag is sent to the command below that has it, and never to one, or to
// a flag, that help does not list.
func TestUsage_FlagOfSubcommand(t *testing.T) {
	command := func(use string, change func(*cobra.Command)) *cobra.Command {
		c := &cobra.Command{Use: use, Run: func(*cobra.Command, []string) {}}
		c.Flags().Bool("wide", false, "")
		change(c)
		return c
	}
	hideFlag := func(c *cobra.Command) { c.Flags().Lookup("wide").Hidden = true }
	root := Group(&cobra.Command{Use: "tool"}, command("shown", func(*cobra.Command) {}), command("flagless", hideFlag),
		command("hidden", func(c *cobra.Command) { c.Hidden = true }), command("old", func(c *cobra.Command) { c.Deprecated = "it is gone" }))
	for flag, want := range map[string]string{
		"wide": "unknown flag: --wide (write tool shown --wide)", "shown": "unknown flag: --shown (write tool shown)",
		"hidden": "unknown flag: --hidden", "old": "unknown flag: --old",
	} {
		if err := flagError(root, root.ParseFlags([]string{"--" + flag})); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// A flag of many commands, such as --json, is written behind one of them.
func TestUsage_FlagOfManySubcommands(t *testing.T) {
	root := Group(&cobra.Command{Use: "tool"})
	for _, name := range []string{"ls", "plan", "run", "show"} {
		c := &cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}}
		c.Flags().Bool("json", false, "")
		root.AddCommand(c)
	}
	const want = "unknown flag: --json (write it after a command, as tool run --json)"
	if err := flagError(root, root.ParseFlags([]string{"--json"})); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
