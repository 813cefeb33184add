package outputs

import (
	"encoding/binary"
	"errors"
	"io"

	"fedpace/metrics"
)

// The models in a run's folder.
const (
	ModelFile     = "model.safetensors"
	BestModelFile = "best.safetensors"
)

func init() {
	metrics.Sinks.Register("models", "the final model and the best one", Models{})
}

// Models is the output of a run's models: the final one, and the one with the best validation. That
// is written at the run's end, because to write one every round would write more than the run
// computes. Until then a checkpoint keeps it.
type Models struct{}

// Files implements [metrics.Sink].
func (Models) Files() []string { return []string{ModelFile, BestModelFile} }

// Open implements [metrics.Sink].
func (Models) Open(run *metrics.Run) (metrics.Output, error) { return &models{run: run}, nil }

// models is the output of one run.
type models struct {
	run *metrics.Run
	// best are the parameters of the best model so far; nil: none yet.
	best []float32
}

// Round implements [metrics.Output]: models arrive by Best and Finish.
func (o *models) Round(*metrics.Round) error { return nil }

// Best implements [metrics.ModelObserver]: it keeps the parameters of the best model so far.
func (o *models) Best(_ float64, params []float32) { o.best = params }

// Finish implements [metrics.Finisher]: it writes the final model and the best one, where they exist.
func (o *models) Finish(e *metrics.End) error {
	write := func(file string, params []float32, description string) error {
		// Nothing was trained, or no model was evaluated.
		if params == nil {
			return nil
		}
		return e.Start.Replace(file, func(w io.Writer) error { return o.run.WriteModel(w, params, description) })
	}
	return errors.Join(
		write(ModelFile, e.Params, "final"),
		write(BestModelFile, o.best, "best validation "+o.run.Quality.Name),
	)
}

// Save implements [metrics.Stateful]: the best model's parameters as little-endian float32.
func (o *models) Save() ([]byte, error) {
	return binary.Append(make([]byte, 0, 4*len(o.best)), binary.LittleEndian, o.best)
}

// Restore implements [metrics.Stateful]: it reads the parameters of the best model so far from a
// checkpoint, as float32 in little endian. An empty state means that there was none.
func (o *models) Restore(state []byte) error {
	if len(state) == 0 {
		return nil
	}
	o.best = make([]float32, len(state)/4)
	_, err := binary.Decode(state, binary.LittleEndian, o.best)
	return err
}
