package external

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"fedpace/data/federated"
	"fedpace/learn"
	"fedpace/learn/metric"
)

// Model describes a trainer's model (it is a [learn.ModelInfo]).
type Model struct {
	name              string
	params, trainable int
	// frozen is the number of parameters that never change, the last ones.
	frozen  int
	tensors []learn.Tensor
	metrics []learn.Metric
	// samples is the format of the samples that the process reads.
	samples learn.Samples
}

// prefix begins the name of every trainer's model.
const prefix = "external:"

// IsExternal reports whether a model's name is that of a trainer's model.
func IsExternal(model string) bool { return strings.HasPrefix(model, prefix) }

// Model returns the description of the trainer's model. Its name holds the script's name and
// digest, the number of values and a hash of the tensors, so that equal names mean equal models.
func (p *Program) Model() *Model {
	m := new(Model)
	if s := p.config.Data; s != nil {
		m.samples = s.set.Info().Samples
	}
	// The tensors lie behind each other, the trainable ones first, so the end of the last of them
	// is the number of trainable values.
	for _, t := range p.Tensors {
		m.tensors = append(m.tensors, t.learnTensor(m.params))
		m.params += t.len()
		if t.Trainable {
			m.trainable = m.params
		} else if t.Frozen {
			m.frozen += t.len()
		}
	}
	for _, declared := range p.Metrics {
		m.metrics = append(m.metrics, learn.Metric{Name: declared.Name, Lower: declared.Better == metric.Lower})
	}
	tensors, err := json.Marshal(p.Tensors)
	if err != nil {
		// Tensors consist of names and numbers, so their encoding cannot fail.
		panic("external: " + err.Error())
	}
	m.name = fmt.Sprintf("%s%s@%s@%d-%.16x", prefix, p.Name, p.Digest, m.params, sha256.Sum256(tensors))
	return m
}

// String returns the model's name, which identifies it in a run.
func (m *Model) String() string { return m.name }

// Params returns the number of all parameters.
func (m *Model) Params() int { return m.params }

// Trainable returns the number of trained parameters, the first ones.
func (m *Model) Trainable() int { return m.trainable }

// Frozen returns the number of parameters that never change, the last ones.
func (m *Model) Frozen() int { return m.frozen }

// Tensors returns the model's tensors in their order.
func (m *Model) Tensors() []learn.Tensor { return m.tensors }

// Samples returns the format of the samples that the process reads.
func (m *Model) Samples() learn.Samples { return m.samples }

// Metrics returns the quantities by which the model is measured.
func (m *Model) Metrics() []learn.Metric { return m.metrics }

// CompareModels compares the names of a run's model and of mine, the caller's. It returns nil if they are
// equal, and else an error that says for people how the models differ. The name of a trainer's model
// consists of the script's name, its digest, the number of values and a hash of the tensors
// ([Program.Model]).
func CompareModels(run, mine string) error {
	if run == mine {
		return nil
	}
	if !IsExternal(run) {
		return errors.New("the run's steps are taken without a trainer")
	}
	if !IsExternal(mine) {
		return fmt.Errorf("the run's steps are those of a trainer, %s: give its command by --trainer", displayName(run))
	}
	// The parts are the script's name, its digest, and the number of values with a hash of the
	// tensors.
	runParts := strings.Split(run, "@")
	myParts := strings.Split(mine, "@")
	if len(runParts) != 3 || len(myParts) != 3 {
		return fmt.Errorf("the run's trainer is %s, this one %s", displayName(run), displayName(mine))
	}
	// Another digest means another script, whatever its name.
	if runParts[1] != myParts[1] {
		return fmt.Errorf(
			"the run's trainer is %s, this one %s: "+
				"the script, a module that it imports, a file that it declares or an argument is another",
			displayName(run),
			displayName(mine),
		)
	}
	if runParts[2] != myParts[2] {
		// The third part begins with the number of values.
		runValues, _, _ := strings.Cut(runParts[2], "-")
		myValues, _, _ := strings.Cut(myParts[2], "-")
		return fmt.Errorf(
			"the run's trainer %s has other tensors, of %s numbers, than this one, of %s",
			displayName(run),
			runValues,
			myValues,
		)
	}
	return fmt.Errorf("the run's trainer is named %s, this one %s", displayName(run), displayName(mine))
}

// displayName returns the name of a trainer's model for people: the script's name and the first 12
// digits of its digest. A name without a digest is returned as it is.
func displayName(model string) string {
	parts := strings.Split(strings.TrimPrefix(model, prefix), "@")
	if len(parts) < 2 {
		return model
	}
	return fmt.Sprintf("%s (digest %.12s)", parts[0], parts[1])
}

// Owned is the data set of a trainer that brings its own samples. Only the process can read them;
// here their owners and numbers are known.
type Owned struct {
	about federated.Info
	data  *OwnedData
	// starts is the row of each client's first sample, then that of the first held-out sample.
	starts []int32
}

// Owned returns the set of the trainer's own samples, as its greeting describes them. The samples
// themselves stay in the trainer's process; the set knows only their numbers.
func (p *Program) Owned() *Owned {
	d := p.Greeting.Data
	s := &Owned{data: d, about: federated.Info{Name: p.Name + " (its own data)", Digest: d.Digest}, starts: []int32{0}}
	for c, n := range d.Samples {
		s.starts = append(s.starts, s.starts[c]+int32(n))
	}
	return s
}

// Info describes the set.
func (s *Owned) Info() federated.Info { return s.about }

// Clients returns the number of clients.
func (s *Owned) Clients() int { return len(s.data.Names) }

// Client returns the name of client c.
func (s *Owned) Client(c int) string { return s.data.Names[c] }

// Samples returns the number of training samples of client c.
func (s *Owned) Samples(c int) int { return s.data.Samples[c] }

// HeldOut returns the number of held-out samples.
func (s *Owned) HeldOut() int { return s.data.HeldOut }

// Close has nothing to release.
func (s *Owned) Close() error { return nil }

// Tokens returns the number of tokens of a sample, 0 if samples have none.
func (s *Owned) Tokens() int { return s.data.Tokens }

// Row returns the row number of client c's sample i.
func (s *Owned) Row(c int, i int32) int32 { return s.starts[c] + i }

// HeldOutRow returns the row number of held-out sample i.
func (s *Owned) HeldOutRow(i int) int32 { return s.starts[len(s.starts)-1] + int32(i) }

// Batch returns an error: only the process can read samples.
func (s *Owned) Batch(*learn.Batch, int, []int32) error { return s.errUnreadable() }

// HeldOutBatch returns an error: only the process can read samples.
func (s *Owned) HeldOutBatch(*learn.Batch, int, int) error { return s.errUnreadable() }

// errUnreadable returns the error of an attempt to read samples in this process.
func (s *Owned) errUnreadable() error {
	return fmt.Errorf("the samples of %s are the trainer's, and cannot be read here", s.about.Name)
}
