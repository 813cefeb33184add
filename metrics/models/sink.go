package models

import (
	"encoding/binary"
	"errors"
	"io"

	"fedpace/metrics"
)

// The files in a run's folder.
const (
	File     = "model.safetensors"
	BestFile = "best.safetensors"
)

func init() {
	metrics.Sinks.Register("models", "the final model and the best one", Sink{})
}

// Sink is the output's entry; it has no options.
type Sink struct{}

func (Sink) Files() []string { return []string{File, BestFile} }

func (Sink) Open(run *metrics.Run) (metrics.Output, error) { return &output{run: run}, nil }

type output struct {
	run  *metrics.Run
	best []float32 // nil: none yet
}

func (o *output) Round(*metrics.Round) error { return nil }

func (o *output) Best(_ float64, params []float32) { o.best = params }

func (o *output) Finish(e *metrics.End) error {
	write := func(file string, params []float32, which string) error {
		if params == nil {
			return nil
		}
		return e.Start.Replace(file, func(w io.Writer) error { return o.run.WriteModel(w, params, which) })
	}
	return errors.Join(write(File, e.Params, "final"), write(BestFile, o.best, "best validation "+o.run.Quality.Name))
}

func (o *output) Save() ([]byte, error) {
	return binary.Append(make([]byte, 0, 4*len(o.best)), binary.LittleEndian, o.best)
}

func (o *output) Restore(state []byte) error {
	if len(state) == 0 {
		return nil
	}
	o.best = make([]float32, len(state)/4)
	_, err := binary.Decode(state, binary.LittleEndian, o.best)
	return err
}
