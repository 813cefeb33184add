package dataset

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"fedpace/data"
	"fedpace/data/federated"
	"fedpace/data/table"
	"fedpace/learn"
)

// trial is what a configuration of custom data begins with, beside the data: guesses
// to start from, each with what would be better.
var trial = []struct {
	keys   [][2]string
	reason string
}{
	{[][2]string{{"model", "linear"}}, "for a start; fedpace help model lists the others"},
	{[][2]string{{"schedule.k0", "10"}}, "local steps of a client in a round"},
	{[][2]string{{"schedule.eta0", "0.1"}}, "a guess; fedpace compare --grid schedule.eta0=0.01,0.03,0.1,0.3 " +
		"finds a rate"},
	{[][2]string{{"compute.seconds_per_step", "0.01"}}, "a guess; fedpace calibrate --model measures a device"},
	{[][2]string{{"network.download_mbps", "20"}, {"network.upload_mbps", "5"}}, "a guess; the clients' links"},
	{[][2]string{{"schedule.window", "10"}}, "rounds over which the training loss is averaged"},
	{[][2]string{{"evaluate.every", "5"}, {"stop.rounds", "100"}}, ""},
}

// tellsNext reports whether the samples are of a text whose next token is to be told.
func tellsNext(samples learn.Samples) bool {
	return samples.Input == learn.Tokens && samples.Classes == samples.Vocabulary
}

// startModel is the model for a start with such samples, and what it is.
func startModel(samples learn.Samples) (model, description string) {
	switch {
	case samples.Targets > 0:
		return "[dense: open]", "a linear regression; "
	case tellsNext(samples):
		return "[embedding: 8, gru: 32, dense]", "tells the next token; "
	case samples.Input == learn.Tokens:
		return "[embedding: 32, average, dense]", "tells the class of a text by its characters, in any order; "
	}
	return "linear", ""
}

// Proposal is a configuration for a table of which nothing says what its columns mean.
type Proposal struct {
	// Of the set that it makes; no digest: it cannot be read, and the text says why.
	federated.Info

	Text string
	// What is to be predicted, and why.
	Answer string
}

// Propose makes a proposal. label is the column to be predicted, "": that is guessed, too. instead is
// the line in the place of the model's, where a trainer has it; "" is none.
func Propose(path, label, instead string, o federated.Options) (proposal Proposal, err error) {
	p, err := table.Propose(path, label)
	if err != nil {
		return proposal, err
	}
	var b strings.Builder
	looked := fmt.Sprintf("%d rows", p.Rows)
	if !p.All {
		looked = fmt.Sprintf("the first %d rows", p.Rows)
	}
	fmt.Fprintf(
		&b,
		"# A proposal from %s of %d columns. Look at each line, correct it, then:\n#   fedpace run --config FILE\n",
		looked,
		p.Columns,
	)
	values, info, err := settings(p, path, o)
	if err != nil {
		fmt.Fprintf(&b, "# The table cannot be read so: %s\n", strings.ReplaceAll(err.Error(), "\n", " "))
	}
	name := nameOf(path)
	fmt.Fprintf(
		&b,
		"task: custom\n%-30s # of the folder with the results, runs/%s\n%s",
		"name: "+name,
		name,
		p.YAML(path),
	)
	for _, t := range trial {
		for _, key := range t.keys {
			if k, ok := values[key[0]]; ok {
				key[1] = k.value
				t.reason = k.reason
			}
			line := key[0] + ": " + key[1]
			if key[0] == "model" && instead != "" {
				line = instead
				t.reason = "has the model"
			}
			if t.reason != "" {
				line = fmt.Sprintf("%-30s # %s", line, t.reason)
			}
			fmt.Fprintln(&b, line)
		}
	}
	return Proposal{info, b.String(), p.Answer()}, nil
}

// nameOf is what a run on a file is called: as the file, without what cannot stand in a name.
func nameOf(path string) string {
	base, _, _ := strings.Cut(filepath.Base(path), ".")
	name := strings.Trim(regexp.MustCompile(`[^A-Za-z0-9_]+`).ReplaceAllString(base, "-"), "-")
	return cmp.Or(name[:min(len(name), 32)], "own")
}

// setting is the value of a key, and why it is proposed.
type setting struct{ value, reason string }

// settings are what the samples say in the place of guesses; the error says why a
// proposal that is complete cannot be read.
func settings(p *table.Proposal, path string, o federated.Options) (map[string]setting, federated.Info, error) {
	guess := federated.Info{Samples: learn.Samples{Targets: len(p.Table.Target)}}
	if p.Table.Text != "" {
		guess.Input = learn.Tokens
	}
	if p.Table.Label != "" {
		guess.Classes = 2 // or more
	}
	model, description := startModel(guess.Samples)
	values := map[string]setting{"model": {model, description + "for a start; fedpace help model lists the others"}}
	if !p.Complete() {
		return values, guess, nil
	}
	set, err := data.OpenWith(p.Table, path, o)
	if err != nil {
		return values, guess, err
	}
	steps := 10
	if !set.Info().Undealt {
		steps = federated.MedianEpoch(set)
		values["schedule.k0"] = setting{fmt.Sprint(steps), "an epoch of the median client"}
	}
	if set.Info().Targets > 0 {
		if eta, reason, err := rateOf(set, steps); err == nil {
			reason += fmt.Sprintf(
				"a guess; fedpace compare --grid schedule.eta0=%.1g,%.1g,%.1g,%.1g finds a rate",
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

// rateOf is a learning rate for a linear regression. A step of least mean squares is
// stable below the inverse of the mean squared length of a sample (Widrow and Hoff 1960),
// the constant 1 of the bias included. An update of 2^17 or more ends a run: where targets
// reach so far, a task's steps stay below it. Both are kept by a factor of two.
func rateOf(set federated.Set, steps int) (eta float64, reason string, err error) {
	var batch learn.Batch
	n := 0.0
	power := 0.0
	curvature := 0.0
	for client := range set.Clients() {
		err := federated.Visit(set, client, &batch, func() {
			n += float64(batch.N)
			for _, x := range batch.X {
				power += float64(x) * float64(x)
			}
			for _, y := range batch.Targets {
				curvature = max(curvature, math.Abs(float64(y)))
			}
		})
		if err != nil {
			return 0, "", err
		}
	}
	eta = min(0.1, 0.5/(power/n+1))
	const far = 1 << 16
	if slow := far / (2 * float64(steps) * curvature); curvature > far && slow < eta {
		eta = slow
		reason = fmt.Sprintf("short steps, as targets reach %.2g (larger units allow longer ones); ", curvature)
	}
	eta, err = strconv.ParseFloat(fmt.Sprintf("%.1g", eta), 64)
	return eta, reason, err
}
