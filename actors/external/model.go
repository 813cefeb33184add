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

// Model is what a trainer says of its model (a [learn.ModelInfo]).
type Model struct {
	name              string
	params, trainable int
	frozen            int // that never change
	tensors           []learn.Tensor
	metrics           []learn.Metric
	samples           learn.Samples // that the process reads
}

// prefix begins the name of a model that a trainer has.
const prefix = "external:"

// IsExternal reports whether a model's name is that of a trainer's.
func IsExternal(model string) bool { return strings.HasPrefix(model, prefix) }

func (p *Program) Model() *Model {
	m := new(Model)
	if s := p.config.Data; s != nil {
		m.samples = s.set.Info().Samples
	}
	for _, t := range p.Tensors {
		m.tensors = append(m.tensors, learn.Tensor{Name: t.Name, Shape: t.Shape, Offset: m.params})
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
		panic("external: " + err.Error()) // they are names and numbers
	}
	m.name = fmt.Sprintf("%s%s@%s@%d-%.16x", prefix, p.Name, p.Digest, m.params, sha256.Sum256(tensors))
	return m
}

func (m *Model) String() string          { return m.name }
func (m *Model) Params() int             { return m.params }
func (m *Model) Trainable() int          { return m.trainable }
func (m *Model) Frozen() int             { return m.frozen }
func (m *Model) Tensors() []learn.Tensor { return m.tensors }
func (m *Model) Samples() learn.Samples  { return m.samples }
func (m *Model) Metrics() []learn.Metric { return m.metrics }

// CompareModels says in what the model of a run differs from another by their names; nil where
// they are equal.
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
	a := strings.Split(run, "@")
	b := strings.Split(mine, "@")
	if len(a) != 3 || len(b) != 3 {
		return fmt.Errorf("the run's trainer is %s, this one %s", displayName(run), displayName(mine))
	}
	if a[1] != b[1] {
		return fmt.Errorf(
			"the run's trainer is %s, this one %s: the script, or a file that it declares, is another",
			displayName(run),
			displayName(mine),
		)
	}
	if a[2] != b[2] {
		n, _, _ := strings.Cut(a[2], "-")
		m, _, _ := strings.Cut(b[2], "-")
		return fmt.Errorf(
			"the run's trainer %s has other tensors, of %s numbers, than this one, of %s",
			displayName(run),
			n,
			m,
		)
	}
	return fmt.Errorf("the run's trainer is named %s, this one %s", displayName(run), displayName(mine))
}

// CompareTrainers says in what a trainer of this model and class of arithmetic differs from those
// of a run; nil where the run would come to the same bits.
func CompareTrainers(run, runClass, mine, class string) error {
	if err := CompareModels(run, mine); err != nil || runClass == class {
		return err
	}
	return fmt.Errorf(
		"the run's trainer calculates in class %s, this one in %s: their bits would differ",
		runClass,
		class,
	)
}

// displayName is a model's name for people: that of the script, and the beginning of its digest.
func displayName(model string) string {
	parts := strings.Split(strings.TrimPrefix(model, prefix), "@")
	if len(parts) < 2 {
		return model
	}
	return fmt.Sprintf("%s (digest %.12s)", parts[0], parts[1])
}

// Owned is the set of a trainer that brings its own samples, which it alone can read:
// what is known of them is whose they are, and how many.
type Owned struct {
	about  federated.Info
	data   *OwnedData
	starts []int32 // row of each client's first sample, then that of the first held out
}

// Owned is the set of the trainer's own samples.
func (p *Program) Owned() *Owned {
	d := p.Greeting.Data
	s := &Owned{data: d, about: federated.Info{Name: p.Name + " (its own data)", Digest: d.Digest}, starts: []int32{0}}
	for c, n := range d.Samples {
		s.starts = append(s.starts, s.starts[c]+int32(n))
	}
	return s
}

func (s *Owned) Info() federated.Info { return s.about }
func (s *Owned) Clients() int         { return len(s.data.Names) }
func (s *Owned) Client(c int) string  { return s.data.Names[c] }
func (s *Owned) Samples(c int) int    { return s.data.Samples[c] }
func (s *Owned) HeldOut() int         { return s.data.HeldOut }
func (s *Owned) Close() error         { return nil }

// Tokens are those of a sample; 0: it has none.
func (s *Owned) Tokens() int { return s.data.Tokens }

// Row is the number of client c's sample i.
func (s *Owned) Row(c int, i int32) int32 { return s.starts[c] + i }

// HeldOutRow is the number of held-out sample i.
func (s *Owned) HeldOutRow(i int) int32 { return s.starts[len(s.starts)-1] + int32(i) }

func (s *Owned) Batch(*learn.Batch, int, []int32) error { return s.errUnreadable() }

func (s *Owned) HeldOutBatch(*learn.Batch, int, int) error { return s.errUnreadable() }

func (s *Owned) errUnreadable() error {
	return fmt.Errorf("the samples of %s are the trainer's, and cannot be read here", s.about.Name)
}
