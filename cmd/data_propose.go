package cmd

import (
	"fmt"
	"io"
	"strings"

	"fedpace/actors/data"
	"fedpace/actors/data/federated"
	"fedpace/actors/data/table"
	"fedpace/actors/learn"
)

// trial is what a configuration of custom data begins with, beside the data: guesses
// to start from, each with what would be better.
var trial = []struct {
	keys [][2]string
	why  string
}{
	{[][2]string{{"model", "linear"}}, "for a start; fedpace help model lists the others"},
	{[][2]string{{"schedule.k0", "10"}}, "local steps of a client in a round"},
	{[][2]string{{"schedule.eta0", "0.1"}}, "a guess; fedpace compare --grid schedule.eta0=0.01,0.03,0.1,0.3 finds a rate"},
	{[][2]string{{"compute.seconds_per_step", "0.01"}}, "a guess; fedpace calibrate --model measures a device"},
	{[][2]string{{"network.download_mbps", "20"}, {"network.upload_mbps", "5"}}, "a guess; the clients' links"},
	{[][2]string{{"evaluate.every", "5"}, {"stop.rounds", "100"}}, ""},
}

// startModel is the model for a start with such samples, and what it is.
func startModel(of learn.Samples) (model, what string) {
	switch {
	case of.Targets > 0:
		return "[dense: open]", "a linear regression; "
	case of.Input == learn.Tokens && of.Classes == of.Vocabulary:
		return "[embedding: 8, gru: 32, dense]", "tells the next token; "
	case of.Input == learn.Tokens:
		return "[embedding: 32, average, dense]", "tells the class of a text; "
	}
	return "linear", ""
}

// propose prints a configuration for a table of which nothing says what its columns
// mean.
func (s *source) propose(w io.Writer) error {
	p, err := table.Propose(s.path)
	if err != nil {
		return err
	}
	var b strings.Builder
	looked := fmt.Sprintf("%d rows", p.Rows)
	if !p.All {
		looked = fmt.Sprintf("the first %d rows", p.Rows)
	}
	fmt.Fprintf(&b, "# A proposal from %s of %d columns. Look at each line, correct it, then:\n#   fedpace run --config FILE\n", looked, p.Columns)
	steps, err := s.try(p)
	if err != nil {
		fmt.Fprintf(&b, "# The table cannot be read so: %s\n", strings.ReplaceAll(err.Error(), "\n", " "))
	}
	samples := learn.Samples{Targets: len(p.Table.Target)}
	if p.Table.Text != "" {
		samples.Input = learn.Tokens
	}
	if p.Table.Label != "" {
		samples.Classes = 2 // or more
	}
	model, what := startModel(samples)
	fmt.Fprintf(&b, "task: custom\nname: own                      # of the folder with the results, runs/own\n%s", p.YAML(s.path))
	for _, t := range trial {
		for _, key := range t.keys {
			if key[0] == "schedule.k0" && steps > 0 {
				key[1], t.why = fmt.Sprint(steps), "an epoch of the median client"
			}
			if key[0] == "model" {
				key[1], t.why = model, what+t.why
			}
			line := key[0] + ": " + key[1]
			if t.why != "" {
				line = fmt.Sprintf("%-30s # %s", line, t.why)
			}
			fmt.Fprintln(&b, line)
		}
	}
	_, err = io.WriteString(w, b.String())
	return err
}

// try reads the table by the proposal, if that is complete. It returns how many local
// steps go through the samples of the median client with the minibatch that fits; 0: they
// are nobody's.
func (s *source) try(p *table.Proposal) (steps int, err error) {
	if !p.Complete() {
		return 0, nil
	}
	set, err := data.OpenWith(p.Reader(), s.path, s.options)
	if err != nil {
		return 0, err
	}
	if !set.Info().Undealt {
		steps = federated.MedianEpoch(set)
	}
	return steps, set.Close()
}
