package outputs

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"fedpace/learn/metric"
	"fedpace/metrics"
)

// memory is a folder of growing files.
type memory struct {
	metrics.Folder
	files map[string]*inMemory
}

type inMemory struct{ bytes.Buffer }

func (f *inMemory) Size() int64 { return int64(f.Len()) }

func (m memory) Append(name string) (metrics.File, error) {
	if m.files[name] == nil {
		m.files[name] = &inMemory{}
	}
	return m.files[name], nil
}

func TestFairness_Tables(t *testing.T) {
	run := &metrics.Run{Clients: 3, Metrics: []metric.Metric{{Name: metric.Accuracy}}, Classes: []string{"phone", "board"}, Class: func(client int) int { return client / 2 }}
	m := memory{files: map[string]*inMemory{}}
	evaluation := func(number int, accuracy float64) *metrics.ClientEvaluation {
		scores := []metric.ClientScore{{Client: 0, Samples: 4, Loss: 0.5, Metrics: []float64{0.75}}, {Client: 1, Samples: 8, Loss: 1, Metrics: []float64{accuracy}}, {Client: 2, Samples: 2, Loss: 3, Metrics: []float64{0.5}}}
		e := &metrics.ClientEvaluation{Round: number, Scores: scores, All: metrics.FairnessOf(run.Metrics, scores)}
		e.Classes = []metrics.ClassFairness{{Class: "phone", Fairness: metrics.FairnessOf(run.Metrics, scores[:2])}, {Class: "board", Fairness: metrics.FairnessOf(run.Metrics, scores[2:])}}
		return e
	}
	for number, accuracy := range []float64{0.25, math.NaN()} { // opened twice, as by a run that goes on
		o, err := Fairness{}.Open(run)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(o.(metrics.Starter).Start(&metrics.Start{Folder: m}), o.(metrics.ClientsObserver).Clients(evaluation(10*(number+1), accuracy)), o.Round(nil)); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		ClientsFile: `round,client,class,samples,loss,accuracy
10,0,phone,4,0.5,0.75
10,1,phone,8,1,0.25
10,2,board,2,3,0.5
20,0,phone,4,0.5,0.75
20,1,phone,8,1,
20,2,board,2,3,0.5
`,
		// Jain's index is 1.5² / (3 · 0.875) and 1² / (2 · 0.625). In round 20 client 1 has no accuracy, so means
		// are over the others: 1.25² / (2 · 0.8125).
		FairnessFile: `round,class,clients,mean_accuracy,worst_decile_accuracy,jain_accuracy,mean_loss,worst_decile_loss
10,,3,0.5,0.25,0.8571428571428571,1.5,3
10,phone,2,0.5,0.25,0.8,0.75,1
10,board,1,0.5,0.5,1,3,3
20,,3,0.625,0.5,0.9615384615384616,1.5,3
20,phone,2,0.75,0.75,1,0.75,1
20,board,1,0.5,0.5,1,3,3
`,
	} {
		if got := m.files[name].String(); got != want {
			t.Errorf("%s holds\n%swant\n%s", name, got, want)
		}
	}
}
