package cmd

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fedpace/cmd/internal/cli"
	"fedpace/config"
	"fedpace/config/reference"
	"fedpace/internal/names"
)

// helpCommand is help whose topic must exist.
func helpCommand(root *cobra.Command) *cobra.Command {
	var page bool
	root.InitDefaultHelpCmd()
	help := &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about any command or key of the configuration",
		Example: `  fedpace help configuration
  fedpace help schedule.k0
  fedpace help data prepare`,
		RunE: func(c *cobra.Command, args []string) error {
			if page {
				return writeCommands(c.OutOrStdout(), root)
			}
			command, unmatched, err := root.Find(args)
			if err != nil || len(unmatched) > 0 {
				if text, ok := config.Explain(strings.Join(args, ".")); ok {
					topic := &cobra.Command{Long: text}
					topic.SetOut(c.OutOrStdout())
					c.HelpFunc()(topic, nil)
					return nil
				}
				return noHelp(root, strings.Join(args, " "))
			}
			command.InitDefaultHelpFlag()
			return command.Help()
		},
	}
	standard, _, _ := root.Find([]string{"help"})
	help.ValidArgsFunction = standard.ValidArgsFunction
	root.RemoveCommand(standard)
	help.Flags().BoolVar(&page, "markdown", false, "print the help of all commands as one page, docs/commands.md")
	return help
}

// noHelp says that there is none on a topic, and which command or key may be meant.
func noHelp(root *cobra.Command, topic string) error {
	var topics []string
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			topics = append(topics, c.Name())
		}
	}
	for _, k := range config.KnownKeys() {
		group, _, _ := strings.Cut(k.Name, ".")
		topics = append(topics, group, k.Name)
	}
	if near := names.Nearest(topic, topics); near != "" {
		return cli.UsageError{Problem: fmt.Errorf("no help on %.60q (did you mean %s?)", topic, near)}
	}
	return cli.UsageError{Problem: fmt.Errorf("no help on %.60q", topic)}
}

// sharedFlags are those that two commands or more explain alike, of those of one name the ones
// that most have. Where their defaults differ they have none.
func sharedFlags(commands []*cobra.Command) *pflag.FlagSet {
	alike := map[string][]*pflag.Flag{}
	commonest := map[string][]*pflag.Flag{}
	for _, c := range commands {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if same := append(alike[f.Name+f.Usage], f); !f.Hidden {
				alike[f.Name+f.Usage] = same
				if len(same) > max(1, len(commonest[f.Name])) {
					commonest[f.Name] = same
				}
			}
		})
	}
	list := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, same := range commonest {
		f := *same[0]
		if slices.ContainsFunc(same, func(flag *pflag.Flag) bool { return flag.DefValue != f.DefValue }) {
			f.DefValue = map[bool]string{false: "0"}[f.Value.Type() == "string"] // which help does not show
		}
		list.AddFlag(&f)
	}
	return list
}

// commandsBelow are the commands below one that the page explains: none that is hidden or has a
// page of its own, and none that only holds others.
func commandsBelow(group *cobra.Command) (list []*cobra.Command) {
	for _, c := range group.Commands() {
		if c.Hidden {
			continue
		}
		if c.Long != "" || !c.HasSubCommands() {
			list = append(list, c)
		}
		if c.Name() != "completion" { // each shell's own help is a manual
			list = append(list, commandsBelow(c)...)
		}
	}
	return list
}

// writeCommands writes the help of all commands below a root as a page of Markdown. Flags that
// many have alike are explained once.
func writeCommands(w io.Writer, root *cobra.Command) error {
	var b bytes.Buffer
	commands := commandsBelow(root)
	shared := sharedFlags(commands)
	page := func(title string, c *cobra.Command) {
		var text strings.Builder
		c.SetOut(&text)
		root.HelpFunc()(c, nil)
		help, _, _ := strings.Cut(text.String(), "\nUse \"") // where more is said
		usage := "Usage:\n  " + c.UseLine() + "\n\n"         // which the title says
		fmt.Fprintf(&b, "## %s\n\n```text\n%s", title, strings.Replace(help, usage, "", 1))
	}
	b.WriteString("# All commands\n\nWhat `fedpace COMMAND --help` prints, as `fedpace help --markdown` writes it.\n\n")
	all := &cobra.Command{
		Use:   "fedpace COMMAND",
		Short: "Below they are named behind \"and from above\".",
		Run:   func(*cobra.Command, []string) {},
	}
	all.Flags().AddFlagSet(shared)
	page("Flags of several commands", all)
	b.WriteString("```\n")
	for _, c := range commands {
		also := ""
		hidden := []*pflag.Flag(nil)
		c.InitDefaultHelpFlag()
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			common := shared.Lookup(f.Name)
			switch {
			case f.Name == "help": // of itself
			case common != nil && common.Usage == f.Usage && !f.Hidden:
				flag := " --" + f.Name
				if common.DefValue != f.DefValue && f.DefValue != "" {
					flag += "=" + f.DefValue
				}
				if len(also)+len(flag)-strings.LastIndex(also, "\n") > 80 {
					also += "\n"
				}
				also += flag
			default:
				return
			}
			f.Hidden = true
			hidden = append(hidden, f)
		})
		b.WriteString("\n")
		page("`"+strings.TrimSuffix(c.UseLine(), " [flags]")+"`", c)
		for _, f := range hidden {
			f.Hidden = false
		}
		b.WriteString("```\n")
		if also != "" {
			fmt.Fprintf(&b, "\nAnd from above: `%s`\n", also[1:])
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

// configurationKeys is a page of help: all keys with their meaning.
func configurationKeys() string {
	return cli.Aligned(func(w io.Writer) {
		fmt.Fprint(w, `The keys of a configuration file and of --set. The defaults of a task are those
of the paper's Tables 1 and 2; fedpace run --dry-run prints the values in use.
Those with [] are of the elements of a list. fedpace help KEY has a key's values,
and its options, as fedpace help fleet.upload_mbps and fedpace help close.deadline.

`)
		for _, k := range config.KnownKeys() {
			if !k.Listed() || k.Entries == nil {
				fmt.Fprintf(w, "  %s\t%s\n", k.Name, k.About())
			}
		}
	})
}

// configurationTopic explains the configuration. Its page is made when it is asked
// for, since no other command needs all keys.
func configurationTopic() *cobra.Command {
	topic := cli.Group(&cobra.Command{
		Use:     "configuration",
		Aliases: []string{"config"},
		Short:   "All keys of a configuration, and files about them",
		Example: "  fedpace help configuration\n  fedpace config schema > fedpace.schema.json",
	}, pageCommand("schema", "Print a JSON Schema of a configuration",
		`Print a JSON Schema of a configuration. An editor with the YAML language server
completes and checks a file that begins with

  # yaml-language-server: $schema=fedpace.schema.json`, "  fedpace config schema > "+
			"fedpace.schema.json", reference.Schema),
		pageCommand("reference", "Print all keys with types, defaults and ranges",
			"Print docs/configuration.md: every key with its values, default and "+
				"meaning.", "  fedpace config reference > docs/configuration.md", reference.Page))
	topic.SetHelpFunc(func(c *cobra.Command, args []string) {
		if c == topic {
			c.Long = configurationKeys()
		}
		topic.Parent().HelpFunc()(c, args)
	})
	return topic
}

// pageCommand prints a page about the configuration.
func pageCommand(use, short, long, example string, page func() []byte) *cobra.Command {
	return &cobra.Command{
		Use:     use,
		Short:   short,
		Long:    long,
		Example: example,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := c.OutOrStdout().Write(page())
			return err
		},
	}
}
