package folders

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"fedpace/cmd/internal/cli"
	"fedpace/config"
	"fedpace/experiment/folder"
	"fedpace/internal/human"
	"fedpace/internal/table"
	"fedpace/learn/metric"
	"fedpace/metrics"
)

// maxListed bounds the number of runs that are looked for below a folder.
const maxListed = 10_000

// LsCommand makes "fedpace ls", which lists the runs in folders that have all of the tags in --tag:
// as a table on a terminal, with tabs between the columns elsewhere, or as JSON. Without an
// argument it looks into the folder runs.
func LsCommand() *cobra.Command {
	var tags []string
	c := &cobra.Command{
		Use:   "ls [FOLDER]...",
		Short: "List runs: their state, what they ran and what they came to",
		Long: `List the runs in folders (default: runs): folder, state, task, schedule, seed,
rounds, virtual time, best accuracy (or evaluate.metric) and tags. In a pipe
tabs separate the columns, and times are in seconds. fedpace verify explains the
states damaged and changed.`,
		Example: `  fedpace ls
  fedpace ls runs/compare --tag paper
  fedpace ls --json | jq -r '.runs[] | select(.state == "stopped").folder'`,
		RunE: func(c *cobra.Command, args []string) error {
			// Damaged runs are in the list; only a failure to look ends the command.
			list, err := listRuns(c, args, tags)
			if err != nil {
				return err
			}
			// People get a table, other programs tabs; --json replaces both.
			write := func(w io.Writer) error { return writeRuns(w, list, cli.OnTerminal(c)) }
			return cli.Print(c, struct {
				Runs []listedRun `json:"runs"`
			}{list}, write)
		},
	}
	cli.JSONFlag(c, "")
	c.Flags().StringArrayVar(&tags, "tag", nil, "runs with this `TAG` alone; may be repeated")
	return c
}

// listedRun is a line of the list, and an object of --json.
type listedRun struct {
	// Folder is the path of the run, as it was found.
	Folder string `json:"folder"`
	// State says whether the run is complete, is running, was stopped or is damaged.
	State folder.RunState `json:"state"`
	// Reason says why a run counts as damaged or changed; empty for any other run.
	Reason string `json:"why,omitempty"`
	// Name is the name in the run's configuration.
	Name string `json:"name"`
	// Task is the learning task; empty if the configuration cannot be read.
	Task config.Task `json:"task"`
	// Schedule names the schedule of the local steps.
	Schedule string `json:"schedule"`
	// Seed is the seed of the run's random numbers.
	Seed uint64 `json:"seed"`
	// Rounds is the number of completed rounds.
	Rounds int `json:"rounds"`
	// Virtual is the simulated time that the rounds took, in seconds.
	Virtual float64 `json:"virtual_seconds"`
	// Metric is the name of the metric by which models are compared; empty: none is known yet.
	Metric string `json:"metric"`
	// Best is the best value of that metric; nil where no model was evaluated.
	Best *float64 `json:"best"`
	// Tags are the user's tags of the run; empty, not nil, without any.
	Tags []string `json:"tags"`
}

// listRuns returns the runs below the folders dirs that have all of the given tags. Without dirs it
// looks into the folder runs, which need not exist. What cannot be read is noted on standard error,
// and the other runs are still listed.
func listRuns(c *cobra.Command, dirs, tags []string) ([]listedRun, error) {
	var found []string
	for _, dir := range orDefault(dirs) {
		inFolder, unread, err := folder.Find(dir, folder.Levels, maxListed)
		if errors.Is(err, fs.ErrNotExist) && len(dirs) == 0 {
			// Nothing has run yet, which is no error for the default folder.
			break
		}
		if err := errors.Join(err, printNotes(c, unread...)); err != nil {
			return nil, err
		}
		found = append(found, inFolder...)
	}
	// An empty list is [] in JSON, where nil would be null.
	list := []listedRun{}
	// A run is listed once, even if several arguments contain it.
	for _, dir := range folder.Distinct(found) {
		o := folder.Inspect(dir)
		// The run has been removed since it was found.
		if errors.Is(o.Err, folder.ErrNoRun) {
			continue
		}
		runTags := o.Notes().Tags
		// A run must have each of the tags.
		if slices.ContainsFunc(tags, func(tag string) bool { return !slices.Contains(runTags, tag) }) {
			continue
		}
		r := listedRun{
			Folder:  dir,
			State:   o.State,
			Rounds:  o.Rounds,
			Virtual: o.Virtual,
			Metric:  o.Quality.Name,
			Best:    metrics.Measured(o.Best),
			Tags:    []string{},
		}
		// A damaged run stays in the list, with the reason.
		if o.Err != nil {
			r.Reason = o.Err.Error()
			if err := printNotes(c, o.Err); err != nil {
				return nil, err
			}
		}
		// Without a task, the configuration could not be read.
		if o.Config.Task != "" {
			r.Name = o.Config.Name
			r.Task = o.Config.Task
			r.Schedule = o.Config.Schedule.Name()
			r.Seed = o.Config.Seed
			r.Tags = append(r.Tags, runTags...)
		}
		list = append(list, r)
	}
	return list, nil
}

// printNotes prints each problem as a line on standard error, beside the result of the command. It
// returns an error only if the printing fails.
func printNotes(c *cobra.Command, problems ...error) error {
	for _, problem := range problems {
		if _, err := fmt.Fprintf(c.ErrOrStderr(), "note: %s\n", printable(problem.Error())); err != nil {
			return err
		}
	}
	return nil
}

// printable returns s as it is if all of its characters can be printed. Otherwise it returns s in
// quotes, with escapes for the other characters, which could control a terminal or break the columns
// of a table.
func printable(s string) string {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return s
	}
	return strconv.Quote(s)
}

// orDefault returns the folders dirs, or the folder runs if there are none.
func orDefault(dirs []string) []string {
	if len(dirs) == 0 {
		return []string{"runs"}
	}
	return dirs
}

// writeRuns writes the list of runs to w. With forPerson it is an aligned table that fits the width of
// a page; otherwise tabs separate the columns and numbers are complete, for another program. What
// is unknown is "-" or empty.
func writeRuns(w io.Writer, list []listedRun, forPerson bool) error {
	if forPerson && len(list) == 0 {
		_, err := fmt.Fprintln(w, "No run is there.")
		return err
	}
	// A person sees that a value is unknown; a program gets an empty field.
	unknown := ""
	if forPerson {
		unknown = "-"
	}
	// The first row is the head of the table.
	rows := [][]string{{"run", "state", "task", "schedule", "seed", "rounds", "virtual time", "best", "tags"}}
	for _, r := range list {
		var seed, rounds, virtual, best string
		// Without a task the configuration could not be read, and the seed is unknown.
		if r.Task != "" {
			seed = strconv.FormatUint(r.Seed, 10)
		}
		// The numbers in a damaged or changed run may be wrong.
		if r.State != folder.RunDamaged && r.State != folder.RunChanged {
			rounds = strconv.Itoa(r.Rounds)
			virtual = strconv.FormatFloat(r.Virtual, 'g', -1, 64)
			if forPerson {
				// A person reads a rounded time with its unit, a program seconds.
				virtual = human.VirtualTime(r.Virtual)
			}
		}
		// Best is nil or NaN where no model was evaluated.
		if v := r.Best; v != nil && !math.IsNaN(*v) {
			best = human.Fixed(*v)
			if r.Metric != metric.Accuracy {
				best += " " + r.Metric
			}
		}
		cells := []string{r.Folder, string(r.State), string(r.Task), r.Schedule, seed, rounds, virtual, best}
		for i, cell := range cells {
			// Names may have signs that would change a terminal.
			cells[i] = printable(cmp.Or(cell, unknown))
		}
		rows = append(rows, append(cells, printable(strings.Join(r.Tags, " "))))
	}
	if forPerson {
		// Wide columns are shortened in their middle until the table fits.
		return table.WriteFitted(w, rows)
	}
	for _, cells := range rows {
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	return nil
}
