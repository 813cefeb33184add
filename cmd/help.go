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

// withoutDefault cuts from a flag's help the words in brackets about its default, with which the help ends.
// standard are these words; it is empty if there are none.
func withoutDefault(usage string) (plain, standard string) {
	at := strings.Index(usage, " (default ")
	if at < 0 {
		return usage, ""
	}
	return usage[:at], usage[at:]
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
			// Flags count as alike if both name and help agree, except for the default.
			plain, _ := withoutDefault(f.Usage)
			key := f.Name + plain
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
		if slices.ContainsFunc(same, func(flag *pflag.Flag) bool { return flag.Usage != f.Usage }) {
			f.Usage, _ = withoutDefault(f.Usage)
		}
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

// commandPage is the page of Markdown with the help of all commands, as far as it is written.
type commandPage struct {
	root *cobra.Command
	// shared are the flags that several commands have, which the page explains once.
	shared *pflag.FlagSet
	text   bytes.Buffer
}

// writeCommands writes the help of all commands below root to w, as one page of Markdown without the
// examples. Flags that several commands share are explained once, at the top, and only named at each
// command.
func writeCommands(w io.Writer, root *cobra.Command) error {
	commands := commandsBelow(root)
	page := &commandPage{root: root, shared: sharedFlags(commands)}
	page.text.WriteString("# Commands and flags of fedpace\n\n" +
		"What `fedpace COMMAND --help` prints, without its examples; " +
		"`fedpace help --markdown`\nwrites this page.\n\n")
	// A command that does not exist holds the shared flags.
	holder := &cobra.Command{
		Use:   "fedpace COMMAND",
		Short: "Below they are named behind \"Also\"; --tls-* are all three of TLS.",
		Run:   func(*cobra.Command, []string) {},
	}
	holder.Flags().AddFlagSet(page.shared)
	page.addHelp("Flags of several commands", holder)
	for _, c := range commands {
		page.addCommand(c)
	}
	_, err := w.Write(page.text.Bytes())
	return err
}

// addHelp adds the help of a command as a section with this title.
func (p *commandPage) addHelp(title string, c *cobra.Command) {
	var text strings.Builder
	c.SetOut(&text)
	p.root.HelpFunc()(c, nil)
	// The rest only says that more help exists.
	help, _, _ := strings.Cut(text.String(), "\nUse \"")
	// The usage line is in the title already.
	usage := "Usage:\n  " + c.UseLine() + "\n\n"
	help = strings.Replace(help, usage, "", 1)
	if c.HasAvailableSubCommands() {
		help = withoutSubcommands(help)
	}
	// A command without flags ends with its usage line.
	help = strings.TrimSuffix(help, "\n"+strings.TrimSuffix(usage, "\n"))
	fmt.Fprintf(&p.text, "## %s\n\n```text\n%s```\n", title, strings.TrimSuffix(help, "\n\n"))
}

// withoutSubcommands returns the help of a group without its usage and its list of commands, which have sections
// of their own. What the group is for and its flags stay.
func withoutSubcommands(help string) string {
	purpose, rest, found := strings.Cut(help, "\nUsage:\n")
	if !found {
		return help
	}
	_, flags, hasFlags := strings.Cut(rest, "\nFlags:\n")
	if !hasFlags {
		return purpose
	}
	return purpose + "\nFlags:\n" + flags
}

// addCommand adds the section of a command: its help without the shared flags, and a line with the names of
// these. They and the examples, which the pages by purpose have, are taken from the command only while its
// help is printed.
func (p *commandPage) addCommand(c *cobra.Command) {
	c.InitDefaultHelpFlag()
	also, hidden := p.hideShared(c)
	example := c.Example
	c.Example = ""
	p.text.WriteString("\n")
	p.addHelp("`"+strings.TrimSuffix(c.UseLine(), " [flags]")+"`", c)
	c.Example = example
	for _, f := range hidden {
		f.Hidden = false
	}
	if len(also) > 0 {
		names := strings.Join(also, " ")
		names = strings.Replace(names, "--tls-ca --tls-cert --tls-key", "--tls-*", 1)
		fmt.Fprintf(&p.text, "\n%s\n", wrapped("Also: `"+names+"`"))
	}
}

// hideShared hides the flags of a command that the page explains elsewhere, and --help, which every command
// has, and returns the hidden ones. also has the names of the shared flags, with their default if it is the
// command's own.
func (p *commandPage) hideShared(c *cobra.Command) (also []string, hidden []*pflag.Flag) {
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		common := p.shared.Lookup(f.Name)
		var standard string
		isShared := common != nil && common.Usage == f.Usage && !f.Hidden
		if plain, words := withoutDefault(f.Usage); common != nil && common.Usage == plain && !f.Hidden {
			isShared = true
			standard = words
		}
		switch {
		case f.Name == "help":
		case isShared:
			flag := "--" + f.Name
			if common.DefValue != f.DefValue && f.DefValue != "" {
				flag += "=" + f.DefValue
			}
			flag += standard
			also = append(also, flag)
		default:
			return
		}
		f.Hidden = true
		hidden = append(hidden, f)
	})
	return also, hidden
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
