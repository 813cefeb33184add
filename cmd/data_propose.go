package cmd

import (
	"fmt"
	"io"
	"strings"

	"fedpace/actors/data"
	"fedpace/actors/data/federated"
	"fedpace/actors/data/table"
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

// linearRegression is the model for a start where samples have targets.
const linearRegression = "[dense: open]"

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
	fmt.Fprintf(&b, "# A proposal from %s of %d columns. Look at each line, correct it, then:\n#   fedpace run --config FILE\ntask: custom\nname: own                      # of the folder with the results, runs/own\n%s", looked, p.Columns, p.YAML(s.path))
	steps := s.epoch(p)
	for _, t := range trial {
		for _, key := range t.keys {
			if key[0] == "schedule.k0" && steps > 0 {
				key[1], t.why = fmt.Sprint(steps), "an epoch of the median client"
			}
			if key[0] == "model" && len(p.Table.Target) > 0 {
				key[1], t.why = linearRegression, "a linear regression; "+t.why
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

// epoch is how many local steps go through the samples of the median client with the
// minibatch that fits, 0 if the proposal cannot be opened.
func (s *source) epoch(p *table.Proposal) int {
	if !p.Complete() {
		return 0
	}
	set, err := data.OpenWith(p.Reader(), s.path, s.options)
	if err != nil {
		return 0
	}
	defer set.Close()
	if set.Info().Undealt {
		return 0
	}
	return federated.MedianEpoch(set)
}
