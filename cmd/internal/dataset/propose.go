package dataset

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"fedpace/data"
	"fedpace/data/federated"
	"fedpace/data/table"
	"fedpace/learn"
	"fedpace/learn/metric"
)

// firstSettings lists the settings with which a configuration of custom data begins, beside the data: guesses
// to start from, each with the reason or with what would be better. An empty value is one that only the
// samples give.
var firstSettings = []struct{ key, value, reason string }{
	{"model", "linear", "for a start; fedpace help model lists the others"},
	{"schedule.k0", "10", "local steps of a client in a round"},
	{"schedule.eta0", "0.1", "a guess; fedpace tune --grid schedule.eta0=0.01,0.03,0.1,0.3 finds a rate"},
	{"compute.seconds_per_step", "0.01", "a guess; fedpace calibrate --model measures a device"},
	{"network.download_mbps", "20", "a guess; the clients' links"},
	{"network.upload_mbps", "5", "a guess; the clients' links"},
	{"schedule.window", "10", "rounds over which the training loss is averaged"},
	{"evaluate.every", "5", ""},
	{measuresKey, "", ""},
	{"stop.rounds", "100", ""},
}

// measuresKey is the key of the measures beside the model's own.
const measuresKey = "evaluate.measures"

// measuresFor returns the measures of such samples, as the value of evaluate.measures, and why; ok is
// false where none are proposed.
func measuresFor(samples learn.Samples) (s setting, ok bool) {
	reason := "beside accuracy: what guessing the most frequent class gives, and what rare classes do not hide in"
	switch {
	case predictsNextToken(samples) || samples.Targets > metric.MaxTargets:
		return s, false
	case samples.Targets > 0:
		reason = "beside the mean absolute error: that of always saying the mean, and the share of variance explained"
	}
	list := slices.DeleteFunc(metric.MeasuresFor(samples.Targets > 0), func(name string) bool {
		_, err := metric.Measure(name, samples.Classes, samples.Targets)
		return err != nil
	})
	return setting{"[" + strings.Join(list, ", ") + "]", reason}, true
}

// predictsNextToken reports whether the samples are windows of a text whose next token is to be
// predicted: then there are as many classes as tokens.
func predictsNextToken(samples learn.Samples) bool {
	return samples.Input == learn.Tokens && samples.Classes == samples.Vocabulary
}

// startModel returns a simple model to start with for such samples, as a value of the key model,
// and a description of it for a comment, which is empty for the default model.
func startModel(samples learn.Samples) (model, description string) {
	// The form of the samples decides the model.
	switch {
	case samples.Targets > 0:
		return "[dense: open]", "a linear regression; "
	case samples.Input == learn.Sparse:
		return "linear", "tells the class of a text by its words, in any order; "
	case predictsNextToken(samples):
		return "[embedding: 8, gru: 32, dense]", "tells the next token; "
	case samples.Input == learn.Tokens:
		return "[embedding: 32, average, dense]", "tells the class of a text by its characters, in any order; "
	}
	return "linear", ""
}

// Proposal is a configuration for a table whose columns have no mapping yet.
type Proposal struct {
	// Info describes the set that the proposal makes. Without a digest, the table cannot be read
	// so, and Text says why.
	federated.Info

	// Text is the configuration in YAML, with a comment behind each line.
	Text string
	// Answer says what is to be predicted, and why; it is empty if that is the next token.
	Answer string
	// Doubt says which numbers may be read in two ways, and which option decides it; empty: none.
	Doubt string
}

// Named are the columns of a table whose meaning the user gives.
type Named = table.Named

// Propose makes a configuration for the table at path. named are the columns whose meaning the user
// gives. trainerLine is empty, or a line of YAML that names an external trainer. The trainer has a model of its
// own, so that line stands in the place of the one with the key model. o are the options for reading the table.
// A table that cannot be read with the proposal is no error: the text says so.
func Propose(path string, named Named, trainerLine string, o federated.Options) (proposal Proposal, err error) {
	p, err := table.ProposeNamed(path, named)
	if err != nil {
		return proposal, err
	}
	if trainerLine != "" {
		// The rate is one for scaled targets, as the script scales them itself, by the mean and
		// deviation that are read here.
		p.ScaleTargets()
	}
	var b strings.Builder
	// The text says how much of the table the proposal is based on.
	sampleText := fmt.Sprintf("%d rows", p.Rows)
	if !p.All {
		sampleText = fmt.Sprintf("the first %d rows", p.Rows)
	}
	fmt.Fprintf(
		&b,
		"# A proposal from %s of %d columns. Look at each line, correct it, then:\n#   fedpace run --config FILE\n",
		sampleText,
		p.Columns,
	)
	// A table that cannot be read so still has a proposal, which the user can correct.
	values, info, err := dataSettings(p, path, o)
	if err != nil {
		fmt.Fprintf(&b, "# The table cannot be read so: %s\n", strings.ReplaceAll(err.Error(), "\n", " "))
	}
	if trainerLine != "" {
		p.KeepTargets()
	}
	name := runName(path)
	fmt.Fprintf(
		&b,
		"task: custom\n%-30s # of the folder with the results, runs/%s\n%s",
		"name: "+name,
		name,
		p.YAML(path),
	)
	writeFirstSettings(&b, values, trainerLine)
	return Proposal{
		Info:   info,
		Text:   b.String(),
		Answer: p.Answer(),
		Doubt:  p.Doubt,
	}, nil
}

// writeFirstSettings writes firstSettings, one on a line, with the reason as a comment. values are the settings
// that follow from the samples, by key, and take precedence. trainerLine is empty, or a line of YAML that names
// an external trainer; it is written in the place of the key model, as such a trainer has its own model. The
// key of the measures is left out if it has no value, and with a trainer, which measures its model itself.
func writeFirstSettings(b *strings.Builder, values map[string]setting, trainerLine string) {
	for _, t := range firstSettings {
		if known, ok := values[t.key]; ok {
			t.value = known.value
			t.reason = known.reason
		}
		if t.key == measuresKey && (trainerLine != "" || t.value == "") {
			continue
		}
		line := t.key + ": " + t.value
		if t.key == "model" && trainerLine != "" {
			line = trainerLine
			t.reason = "has the model"
		}
		if t.reason != "" {
			line = fmt.Sprintf("%-30s # %s", line, t.reason)
		}
		fmt.Fprintln(b, line)
	}
}

// warn writes the doubt of a proposal, if there is one, as a warning to w, which is for what is no result.
func (p *Proposal) warn(w io.Writer) {
	if p.Doubt != "" {
		fmt.Fprintf(w, "warning: data: %s\n", p.Doubt)
	}
}

// runName returns a name for a run on the file at path: the name of the file without its endings,
// with a hyphen for each stretch of other signs than letters and digits, at most 32 long. If
// nothing is left, it is "own".
func runName(path string) string {
	base, _, _ := strings.Cut(filepath.Base(path), ".")
	// Other signs are not allowed in the name of a run.
	name := strings.Trim(regexp.MustCompile(`[^A-Za-z0-9_]+`).ReplaceAllString(base, "-"), "-")
	return cmp.Or(name[:min(len(name), 32)], "own")
}

// setting is the value of a key, and why it is proposed.
type setting struct{ value, reason string }

// dataSettings returns the keys whose values depend on the samples of the table, each with its value, which
// replaces that of firstSettings, and a description of the set. If the proposal p is incomplete, both are
// guesses from p alone. The error says why a complete proposal cannot be read from path.
func dataSettings(p *table.Proposal, path string, o federated.Options) (map[string]setting, federated.Info, error) {
	// Without reading the table, the proposal tells the form of the samples.
	guess := federated.Info{Samples: learn.Samples{Targets: len(p.Table.Target)}}
	switch {
	case p.Table.Tokens == "words":
		guess.Input = learn.Sparse
	case p.Table.Text != "":
		guess.Input = learn.Tokens
	}
	if p.Table.Label != "" {
		// The number of classes does not matter here: any above 1 makes it a classification.
		guess.Classes = 2
	}
	model, description := startModel(guess.Samples)
	values := map[string]setting{"model": {model, description + "for a start; fedpace help model lists the others"}}
	if measures, ok := measuresFor(guess.Samples); ok {
		values[measuresKey] = measures
	}
	// Nothing more is known without reading the table.
	if !p.Complete() {
		return values, guess, nil
	}
	set, err := data.OpenWith(p.Table, path, o)
	if err != nil {
		return values, guess, err
	}
	if measures, ok := measuresFor(set.Info().Samples); ok {
		values[measuresKey] = measures
	}
	// The clients of the table, if it has any, tell how many steps an epoch has.
	if !set.Info().Undealt {
		steps := federated.MedianEpoch(set)
		values["schedule.k0"] = setting{fmt.Sprint(steps), "an epoch of the median client"}
	}
	// The features of a bag are the words' shares, which are small.
	if set.Info().Input == learn.Sparse {
		values["schedule.eta0"] = setting{"3", "a guess, large as words are small shares of a text; " +
			"fedpace tune --grid schedule.eta0=0.3,1,3,10 finds a rate"}
	}
	// A regression may diverge with the standard rate, so the data decides it.
	if set.Info().Targets > 0 {
		if eta, err := guessRate(set); err == nil {
			// The rates of the grid lie around the guess.
			reason := fmt.Sprintf(
				"a guess; fedpace tune --grid schedule.eta0=%.1g,%.1g,%.1g,%.1g finds a rate",
				eta/10,
				0.3*eta,
				eta,
				3*eta,
			)
			values["schedule.eta0"] = setting{fmt.Sprintf("%.1g", eta), reason}
		}
	}
	return values, set.Info(), set.Close()
}

// guessRate returns a learning rate eta for a linear regression on the set, whose targets are scaled.
//
// A step of least mean squares is stable if eta is below the inverse of the mean squared length of a
// sample (Widrow and Hoff 1960), the constant 1 of the bias included. The bound is halved, to be
// safe, and eta has one digit and is at most 0.1.
func guessRate(set federated.Set) (eta float64, err error) {
	var batch learn.Batch
	// n counts the samples, and squares is the sum of the squares of their features.
	n := 0.0
	squares := 0.0
	// All training samples are read once.
	for client := range set.Clients() {
		err := federated.Visit(set, client, &batch, func() {
			n += float64(batch.N)
			for _, x := range batch.X {
				squares += float64(x) * float64(x)
			}
		})
		if err != nil {
			return 0, err
		}
	}
	// The mean squared length of a sample is that of its features plus 1 for the bias.
	eta = min(0.1, 0.5/(squares/n+1))
	// One digit is enough for a guess, and reads better.
	return strconv.ParseFloat(fmt.Sprintf("%.1g", eta), 64)
}
