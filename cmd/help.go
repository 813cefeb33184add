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

// helpCommand makes "fedpace help" for the program root. It explains a command or a key of the
// configuration; unlike cobra's own command, it fails for a topic that does not exist.
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
			// The page of all commands needs no topic.
			if page {
				return writeCommands(c.OutOrStdout(), root)
			}
			// The words may be the path of a command.
			command, unmatched, err := root.Find(args)
			// What is no command may be a key, whose parts may be given as separate words.
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
	// Completion of topics is taken over from cobra's own command, which this one replaces.
	standard, _, _ := root.Find([]string{"help"})
	help.ValidArgsFunction = standard.ValidArgsFunction
	root.RemoveCommand(standard)
	help.Flags().BoolVar(&page, "markdown", false, "print the help of all commands as one page, docs/commands.md")
	return help
}

// noHelp returns the error for a topic that does not exist. It suggests the command below root or
// the key of the configuration whose name is nearest, if one is near enough.
func noHelp(root *cobra.Command, topic string) error {
	var topics []string
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			topics = append(topics, c.Name())
		}
	}
	// Both a group of keys and a key are topics.
	for _, k := range config.KnownKeys() {
		group, _, _ := strings.Cut(k.Name, ".")
		topics = append(topics, group, k.Name)
	}
	if near := names.Nearest(topic, topics); near != "" {
		return cli.UsageError{Problem: fmt.Errorf("no help on %.60q (did you mean %s?)", topic, near)}
	}
	return cli.UsageError{Problem: fmt.Errorf("no help on %.60q", topic)}
}

// sharedFlags returns the flags that two or more commands have with the same name and help. If a
// name has several helps, the most common one counts. A flag whose default differs between its
// commands is given none.
func sharedFlags(commands []*cobra.Command) *pflag.FlagSet {
	byNameAndHelp := map[string][]*pflag.Flag{}
	commonest := map[string][]*pflag.Flag{}
	for _, c := range commands {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden {
				return
			}
			// Flags count as alike if both name and help agree.
			key := f.Name + f.Usage
			byNameAndHelp[key] = append(byNameAndHelp[key], f)
			same := byNameAndHelp[key]
			// A flag counts as shared from two commands on.
			if len(same) > max(1, len(commonest[f.Name])) {
				commonest[f.Name] = same
			}
		})
	}
	list := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, same := range commonest {
		f := *same[0]
		if slices.ContainsFunc(same, func(flag *pflag.Flag) bool { return flag.DefValue != f.DefValue }) {
			// Help does not print the zero value of the flag's type as a default.
			f.DefValue = "0"
			if f.Value.Type() == "string" {
				f.DefValue = ""
			}
		}
		list.AddFlag(&f)
	}
	return list
}

// commandsBelow returns the commands below group, at any depth, that the page of all commands
// explains. Hidden commands are left out, and so are groups without a text of their own.
func commandsBelow(group *cobra.Command) (list []*cobra.Command) {
	for _, c := range group.Commands() {
		if c.Hidden {
			continue
		}
		if c.Long != "" || !c.HasSubCommands() {
			list = append(list, c)
		}
		// The completion commands of the shells have long manuals of their own.
		if c.Name() != "completion" {
			list = append(list, commandsBelow(c)...)
		}
	}
	return list
}

// writeCommands writes the help of all commands below root to w, as one page of Markdown without the
// examples. Flags that several commands share are explained once, at the top, and only named at each
// command.
func writeCommands(w io.Writer, root *cobra.Command) error {
	var b bytes.Buffer
	commands := commandsBelow(root)
	shared := sharedFlags(commands)
	// page prints the help of c as a section with this title.
	page := func(title string, c *cobra.Command) {
		var text strings.Builder
		c.SetOut(&text)
		root.HelpFunc()(c, nil)
		// The rest only says that more help exists.
		help, _, _ := strings.Cut(text.String(), "\nUse \"")
		// The usage line is in the title already.
		usage := "Usage:\n  " + c.UseLine() + "\n\n"
		help = strings.Replace(help, usage, "", 1)
		// The commands of a group have sections of their own.
		if before, rest, found := strings.Cut(help, "\nUsage:\n"); found && c.HasAvailableSubCommands() {
			_, flags, hasFlags := strings.Cut(rest, "\nFlags:\n")
			help = before
			if hasFlags {
				help += "\nFlags:\n" + flags
			}
		}
		// A command without flags ends with its usage line.
		help = strings.TrimSuffix(help, "\n"+strings.TrimSuffix(usage, "\n"))
		fmt.Fprintf(&b, "## %s\n\n```text\n%s", title, strings.TrimSuffix(help, "\n\n"))
	}
	b.WriteString("# Commands and flags of fedpace\n\nWhat `fedpace COMMAND --help` prints, without its examples; " +
		"`fedpace help --markdown`\nwrites this page.\n\n")
	// A command that does not exist holds the shared flags.
	holder := &cobra.Command{
		Use:   "fedpace COMMAND",
		Short: "Below they are named behind \"Also\"; --tls-* are all three of TLS.",
		Run:   func(*cobra.Command, []string) {},
	}
	holder.Flags().AddFlagSet(shared)
	page("Flags of several commands", holder)
	b.WriteString("```\n")
	// Shared flags are hidden while a command's help is printed, and shown again afterwards.
	for _, c := range commands {
		also := []string(nil)
		hidden := []*pflag.Flag(nil)
		c.InitDefaultHelpFlag()
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			common := shared.Lookup(f.Name)
			switch {
			// Every command has help, which is not worth a line.
			case f.Name == "help":
			case common != nil && common.Usage == f.Usage && !f.Hidden:
				flag := "--" + f.Name
				if common.DefValue != f.DefValue && f.DefValue != "" {
					flag += "=" + f.DefValue
				}
				also = append(also, flag)
			default:
				return
			}
			f.Hidden = true
			hidden = append(hidden, f)
		})
		b.WriteString("\n")
		// The pages by purpose have the examples.
		example := c.Example
		c.Example = ""
		page("`"+strings.TrimSuffix(c.UseLine(), " [flags]")+"`", c)
		c.Example = example
		for _, f := range hidden {
			f.Hidden = false
		}
		b.WriteString("```\n")
		if len(also) > 0 {
			names := strings.Join(also, " ")
			names = strings.Replace(names, "--tls-ca --tls-cert --tls-key", "--tls-*", 1)
			fmt.Fprintf(&b, "\n%s\n", wrapped("Also: `"+names+"`"))
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

// wrapped breaks text between words, into lines of at most 80 columns.
func wrapped(text string) string {
	var b strings.Builder
	column := 0
	for _, word := range strings.Fields(text) {
		switch {
		case column == 0:
		case column+1+len(word) > 80:
			b.WriteString("\n")
			column = 0
		default:
			b.WriteString(" ")
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String()
}

// configurationKeys returns the help on the configuration: a line for each key that stands in every
// configuration, with its meaning.
func configurationKeys() string {
	return cli.Aligned(func(w io.Writer) {
		fmt.Fprint(w, `The keys of a configuration file and of --set. The defaults of a task are those
of the paper's Tables 1 and 2; fedpace run --dry-run prints the values in use.
Those with [] are of the elements of a list. fedpace help KEY has a key's values,
and its options, as fedpace help fleet.upload_mbps and fedpace help close.deadline.

`)
		for _, k := range config.KnownKeys() {
			if !k.InList() || k.Entries == nil {
				fmt.Fprintf(w, "  %s\t%s\n", k.Name, k.About())
			}
		}
	})
}

// configurationTopic makes "fedpace config", whose help lists all keys of a configuration, with
// commands that print a JSON Schema and the reference of all keys. The list is made when it is
// asked for, because no other command needs all keys.
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
		// The commands below the topic have a text of their own.
		if c == topic {
			c.Long = configurationKeys()
		}
		topic.Parent().HelpFunc()(c, args)
	})
	return topic
}

// pageCommand makes a command that prints the page that the function page returns. use, short, long
// and example are the texts of its help.
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
