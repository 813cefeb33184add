package dataset

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"fedpace/cmd/internal/cli"
	"fedpace/config"
	"fedpace/data"
	"fedpace/data/federated"
	"fedpace/data/fetch"
	"fedpace/data/synthetic"
	"fedpace/data/table"
	"fedpace/learn"
	"fedpace/metrics/figure"
)

// Command makes "fedpace data", the group of commands that look at data, keep it in files, deal it
// to clients and fetch archives. archives are the public archives that can be fetched, and fetcher
// downloads them. The group itself only prints its help.
func Command(archives []fetch.Archive, fetcher fetch.Fetcher) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "data",
		Short: "Look at, prepare, partition and fetch federated data",
		Example: `  fedpace data info femnist.parquet
  fedpace data partition cifar-100-binary.tar.gz --kind dirichlet --alpha 0.3 --clients 100 --out cifar.fedpace
  fedpace data fetch shakespeare`,
	}, dataInfoCommand(), dataPrepareCommand(), dataPartitionCommand(), dataFetchCommand(archives, fetcher))
}

// dataInfoCommand makes "fedpace data info", which describes the set at a path: its clients,
// samples, classes and how far its clients differ. For a table without a mapping it prints a
// proposed configuration instead, as init writes it. With --plot it also draws two histograms.
func dataInfoCommand() *cobra.Command {
	var s source
	var plot string
	c := &cobra.Command{
		Use:   "info PATH",
		Short: "Say what a set is like",
		Long: `Show a data set: clients, samples, classes, label skew (mean Jensen-Shannon
divergence), and size in memory. PATH is a file, a folder or synthetic:TASK. For
your own CSV or Parquet info proposes a configuration. --partition shows a
partition without writing it.`,
		Example: `  fedpace data info femnist.parquet
  fedpace data info own.csv > exp.yaml
  fedpace data info --config exp.yaml
  fedpace data info sent140.csv --min-tweets 3 --plot sent140.svg
  fedpace data info cifar-100-binary --partition dirichlet --alpha 0.3 --clients 100
  fedpace data info synthetic:femnist --heterogeneity 4 --clients 300`,
		Args: s.argument("the set's path, or synthetic:TASK"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := s.check(c, args); err != nil {
				return err
			}
			set, err := s.open(c)
			// A figure and JSON describe a set, which a proposal is not.
			if errors.Is(err, table.ErrUnmapped) && plot == "" && !cli.AsJSON(c) {
				p, err := Propose(s.path, Named{}, "", s.options)
				if err != nil {
					return err
				}
				p.warn(c.ErrOrStderr())
				_, err = io.WriteString(c.OutOrStdout(), p.Text)
				return err
			}
			if err != nil {
				return err
			}
			// The set is closed whether or not its description succeeds.
			stats, err := federated.Describe(c.Context(), set)
			if err := errors.Join(err, set.Close()); err != nil {
				return cli.Interruption(c.Context(), err, "")
			}
			// A run makes the samples of a synthetic set as it needs them, so they take no memory.
			if strings.HasPrefix(s.path, madePrefix) {
				stats.Memory = 0
			}
			// The figure is written before the text, so that the text can name it.
			if plot != "" {
				if err := figure.Save(plot, histograms(stats)...); err != nil {
					return fmt.Errorf("--plot: %w", err)
				}
			}
			// The text has a line for the figure, which JSON does not need.
			return cli.Print(c, stats, func(w io.Writer) error {
				text := stats.String()
				if plot != "" {
					text += fmt.Sprintf("figure     %s\n", plot)
				}
				_, err := io.WriteString(w, text)
				return err
			})
		},
	}
	s.add(c)
	s.addPartition(c, "partition")
	c.Flags().Float64Var(&s.heterogeneity, "heterogeneity", 1, "how far a synthetic set's clients differ")
	cli.JSONFlag(c, "")
	c.Flags().StringVar(&plot, "plot", "", "draw samples per client and classes to this .svg file")
	cli.Check(c, "plot", figure.Check)
	return c
}

// histograms returns the panels of the figure of a set that d describes: the number of clients by
// their training samples and, if the set has classes, the number of training samples by class.
func histograms(d federated.Stats) []figure.Panel {
	// A figure may be seen without its text, so it says that data is made.
	name := d.Info.Name
	if d.Info.Synthetic {
		name = "SYNTHETIC: " + name
	}
	// The first panel shows how unevenly the samples are spread over clients.
	sizes := figure.Panel{
		Title:    fmt.Sprintf("%s: clients %d", name, d.Clients),
		X:        "training samples of a client",
		Y:        "clients",
		FromZero: true,
	}
	// A bar reaches half a sample beyond its bounds, so that neighbours touch.
	for _, b := range d.Histogram {
		sizes.Bars = append(
			sizes.Bars,
			figure.Bar{Low: float64(b.Low) - 0.5, High: float64(b.High) + 0.5, Height: float64(b.Clients)},
		)
	}
	// The second panel shows how unevenly they are spread over classes.
	labels := figure.Panel{
		Title:    fmt.Sprintf("training samples %d, label skew %.4f", d.Samples, d.Skew),
		X:        "class",
		Y:        "training samples",
		FromZero: true,
	}
	// A set with targets in place of labels has no classes.
	if len(d.Labels) == 0 {
		return []figure.Panel{sizes}
	}
	// Between the bars of classes there are gaps, because classes do not continue each other as numbers do.
	for class, n := range d.Labels {
		labels.Bars = append(
			labels.Bars,
			figure.Bar{Low: float64(class) - 0.4, High: float64(class) + 0.4, Height: float64(n)},
		)
	}
	return []figure.Panel{sizes, labels}
}

// source is a set as the arguments and flags of a command describe it.
type source struct {
	// path is the path of the set, or madePrefix and the name of a task.
	path string
	// reader reads the files; nil means the one that recognises them.
	reader federated.Reader
	// config is the path of a configuration that says what the columns mean; empty: none.
	config string
	// columns change the mapping of the columns, each as option=value.
	columns []string
	// options say how the set is read, split and dealt to other clients.
	options federated.Options
	// heterogeneity says how far the clients of a synthetic set differ.
	heterogeneity float64
	// kindFlag is the name of the flag for the kind of partition; empty if the command has none.
	kindFlag string
}

// argument returns a check of the arguments that demands exactly one, the path of the set, which
// messages call by the word argument. With --config, the path may be absent, because the
// configuration names it.
func (s *source) argument(argument string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if s.config != "" && len(args) == 0 {
			return nil
		}
		return cli.OneArgument(argument)(c, args)
	}
}

// madePrefix begins the name of a set that is made: synthetic:femnist.
const madePrefix = "synthetic:"

// add adds the flags for reading a set to the command c. Their values go to s.
func (s *source) add(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&s.options.Task, "task", "", "task that the set must be of: "+strings.Join(synthetic.Tasks(), ", "))
	cli.OneOf(c, "task", synthetic.Tasks()...)
	f.Uint64Var(&s.options.Seed, "seed", 1, "seed of the split and of whatever is drawn")
	f.IntVar(&s.options.MinTweets, "min-tweets", 10, "tweets that a Sentiment140 user must have")
	f.StringVar(&s.config, "config", "", "configuration `FILE` with the data's mapping")
	f.StringArrayVar(&s.columns, "map", nil, cli.MapHelp)
	f.IntVar(&s.options.Classes, "classes", 0, "labels of custom data (default: the largest and one)")
	// A flag that is given must be above 0, since 0 stands for the default.
	cli.Positive(c, "min-tweets", "classes")
}

// addPartition adds the flags for dealing the samples to other clients to the command c. kind is
// the name of the flag for the kind of partition, which differs between commands.
func (s *source) addPartition(c *cobra.Command, kind string) {
	s.kindFlag = kind
	p := &s.options.Partition
	f := c.Flags()
	f.StringVar(&p.Kind, kind, "", "kind of partition (fedpace help data partition)")
	cli.OneOf(c, kind, PartitionKinds()...)
	f.IntVar(&p.Clients, "clients", 0, "clients to deal to (default: the set's number)")
	f.Float64Var(
		&p.Alpha,
		"alpha",
		0,
		"concentration for the dirichlet kinds and quantity (default 0.5) and pachinko's coarse labels (default 0.1)",
	)
	f.Float64Var(
		&p.Beta,
		"beta",
		0,
		"concentration of pachinko's fine labels, or of inner_dirichlet's sizes (default 10)",
	)
	f.IntVar(&p.Classes, "labels", 0, "labels of a client of pathological (default 2)")
	f.StringVar(&p.Sizes, "sizes", "", "clients' numbers of samples, as 100,50,25, for size")
	f.IntVar(&p.Group, "group", 0, "natural clients in a client of grouped_natural_id (default 10)")
	f.Float64Var(&p.Strictness, "strictness", 0, "how strictly continuous sorts by the target, up to 1 (default 1)")
	f.IntVar(&p.Shards, "shards", 0, "shards a client (default 2)")
	f.IntVar(&p.Min, "min-samples", 0, "samples that a client must have (default 1)")
	// A 0 stands for the default of a flag that is not given, so that it must not be given.
	cli.Positive(c, "clients", "shards", "min-samples", "alpha", "beta")
}

// PartitionKinds returns the names of the kinds of partition that deal samples to other clients: all but
// natural, which keeps the clients of the set.
func PartitionKinds() []string {
	return slices.DeleteFunc(slices.Clone(federated.PartitionKinds), func(k string) bool { return k == "natural" })
}

// check finishes s from the command line: it reads the configuration that --config names, takes the
// path from args and applies the changes of the mapping. It returns an error for what the command
// line itself gets wrong, such as a flag that does not go with the kind of partition.
func (s *source) check(c *cobra.Command, args []string) (err error) {
	// The configuration says where the data is and what its columns mean.
	if s.config != "" {
		d, err := config.LoadData(s.config)
		if err != nil {
			return err
		}
		s.path = d.Path
		s.reader = d.Reader
	}
	// A path on the command line replaces that of the configuration.
	if len(args) > 0 {
		s.path = args[0]
	}
	// A configuration in the place of data is a common mistake.
	if ext := filepath.Ext(s.path); ext == ".yaml" || ext == ".yml" {
		return cli.Usage(c, fmt.Errorf("%[1]s is a configuration, no data (did you mean --config %[1]s?)", s.path))
	}
	// Changes of the mapping come last, over that of the configuration.
	s.reader, err = table.Map(s.reader, s.columns)
	if err != nil {
		return cli.Usage(c, fmt.Errorf("--map: %w", err))
	}
	// Each flag of a partition goes with the kinds in its list only.
	for _, option := range []struct {
		// flag is the name of the flag.
		flag string
		// kinds are the kinds of partition that the flag goes with.
		kinds []string
	}{
		{"shards", []string{"shards"}},
		{"min-samples", PartitionKinds()},
		{"alpha", []string{"dirichlet", "pachinko", "quantity", "dirichlet_by_class", "inner_dirichlet"}},
		{"beta", []string{"pachinko", "inner_dirichlet"}},
		{"labels", []string{"pathological"}},
		{"sizes", []string{"size"}},
		{"group", []string{"grouped_natural_id"}},
		{"strictness", []string{"continuous"}},
	} {
		// A flag that would do nothing is a mistake of the user.
		if c.Flags().Changed(option.flag) && !slices.Contains(option.kinds, s.options.Partition.Kind) {
			return cli.Usage(
				c,
				fmt.Errorf("--%s: goes with --%s %s", option.flag, s.kindFlag, strings.Join(option.kinds, ", ")),
			)
		}
	}
	return nil
}

// open opens the set that the flags describe: a synthetic one, or the files at the path, with their
// samples dealt to other clients if a partition is named. On a terminal it shows the progress. The
// caller closes the set.
func (s *source) open(c *cobra.Command) (federated.Set, error) {
	// A synthetic set is made from a task, a seed and the number of clients alone.
	task, made := strings.CutPrefix(s.path, madePrefix)
	if made {
		if s.options.Partition.Kind != "" {
			return nil, fmt.Errorf(
				"--%s: the clients of a synthetic set are made with it; want --clients and --heterogeneity alone",
				s.kindFlag,
			)
		}
		// The clients of a synthetic set are made in the number that is asked for.
		return synthetic.New(task, s.options.Partition.Clients, s.options.Seed, s.heterogeneity)
	}
	// Large files take minutes to read.
	display := cli.NewDisplay(c)
	defer display.Close()
	set, err := data.OpenWith(s.reader, s.path, s.optionsWithProgress(display))
	if err != nil {
		return nil, err
	}
	// Only a partition can change the number of clients of a set that is read.
	if n := s.options.Partition.Clients; n > 0 && n != set.Clients() {
		set.Close()
		return nil, fmt.Errorf(
			"--clients %d: %s has %d clients of its own; --%s deals its samples to others",
			n,
			s.path,
			set.Clients(),
			s.kindFlag,
		)
	}
	return set, nil
}

// optionsWithProgress returns the options with a counter of the bytes that are read. The display show reports
// its state until it is closed.
func (s *source) optionsWithProgress(display *cli.Display) federated.Options {
	// The options are copied, so that each call counts the bytes of its own set.
	o := s.options
	o.Reading = new(federated.Reading)
	display.Watch(cli.ReadingStatus(o.Reading.State))
	return o
}

// taskOf returns the task that a set belongs to, judged by its name, or "" for custom data.
func taskOf(info federated.Info) string {
	// The name of a set begins with its task, as in femnist (leaf).
	task, _, _ := strings.Cut(info.Name, " ")
	if slices.Contains(synthetic.Tasks(), task) {
		return task
	}
	return ""
}

// shellWord returns a word as a shell reads it: in quotes if it has other characters than those of usual
// paths.
func shellWord(word string) string {
	isUsual := func(r rune) bool {
		isLetter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		isDigit := r >= '0' && r <= '9'
		return isLetter || isDigit || strings.ContainsRune("/._-+:@%,=", r)
	}
	isPlain := word != "" && strings.IndexFunc(word, func(r rune) bool { return !isUsual(r) }) < 0
	if isPlain {
		return word
	}
	// A quote within the word ends the quotes, stands by itself, and begins them again.
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// runCommand returns the command line that starts a run on the data at path. task is the task of the
// data, or "" for custom data, which needs settings of its own: the command has guesses to start from, and the
// model among them is chosen by samples.
func runCommand(task, path string, samples learn.Samples) string {
	path = shellWord(path)
	// The settings of a task are known, so the command is short.
	if task != "" {
		return "fedpace run --set task=" + task + " --set data=" + path
	}
	text := "fedpace run --set task=custom --set data=" + path
	// The same guesses stand in the configuration that init proposes.
	for _, s := range firstSettings {
		// A setting without a value is one that init fills in by the data.
		if s.value == "" {
			continue
		}
		set := s.key + "=" + s.value
		if s.key == "model" {
			model, _ := startModel(samples)
			// A model other than the first setting is a list, which needs quotes in a shell.
			if model != s.value {
				set = "'model=" + model + "'"
			}
		}
		text += " --set " + set
	}
	return text
}
