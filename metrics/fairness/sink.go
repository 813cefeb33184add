package fairness

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"fedpace/actors/measure"
	"fedpace/metrics"
)

// The files in a run's folder.
const (
	ClientsFile = "client_evaluations.csv"
	File        = "fairness.csv"
)

// ClientsHeader is the first line of client_evaluations.csv: a column for each metric.
func ClientsHeader(list []measure.Metric) string {
	return strings.Join(append([]string{"round,client,class,samples,loss"}, measure.Names(list)...), ",")
}

// Header is the first line of fairness.csv.
func Header(list []measure.Metric) string {
	header := "round,class,clients"
	for _, m := range list {
		header += fmt.Sprintf(",mean_%[1]s,worst_decile_%[1]s,jain_%[1]s", m.Name)
	}
	return header + ",mean_loss,worst_decile_loss"
}

func init() {
	metrics.Sinks.Register("fairness", "evaluations on the clients' own samples in "+ClientsFile+" and "+File+", where evaluate.clients asks for them", Sink{})
}

// Sink is the output's entry; it has no options.
type Sink struct{}

func (Sink) Files() []string { return []string{ClientsFile, File} }

func (Sink) Open(run *metrics.Run) (metrics.Output, error) { return &output{run: run}, nil }

type output struct {
	run          *metrics.Run
	clients, all *bufio.Writer
	row          []byte // reused from row to row
}

// Start implements [metrics.Starter].
func (o *output) Start(s *metrics.Start) (err error) {
	for _, table := range []struct {
		to           **bufio.Writer
		name, header string
	}{{&o.clients, ClientsFile, ClientsHeader(o.run.Metrics)}, {&o.all, File, Header(o.run.Metrics)}} {
		file, err := s.Append(table.name)
		if err != nil {
			return err
		}
		*table.to = bufio.NewWriter(file)
		if file.Size() == 0 {
			_, _ = (*table.to).WriteString(table.header + "\n") // Flush returns the error
		}
	}
	return o.Flush()
}

func (o *output) Round(*metrics.Round) error { return nil }

// Clients implements [metrics.ClientsObserver].
func (o *output) Clients(e *metrics.ClientEvaluation) error {
	for _, s := range e.Scores {
		b := strconv.AppendInt(o.row[:0], int64(e.Round), 10)
		b = strconv.AppendInt(append(b, ','), int64(s.Client), 10)
		b = append(append(b, ','), o.run.ClassName(s.Client)...)
		b = strconv.AppendInt(append(b, ','), int64(s.Samples), 10)
		o.row = append(appendValues(appendValues(b, s.Loss), s.Metrics...), '\n')
		_, _ = o.clients.Write(o.row) // Flush returns the error
	}
	o.sum(e.Round, "", &e.All)
	for i := range e.Classes {
		o.sum(e.Round, e.Classes[i].Class, &e.Classes[i].Fairness)
	}
	return o.Flush()
}

// sum writes a row of fairness.csv; class is empty for all clients.
func (o *output) sum(round int, class string, f *metrics.Fairness) {
	b := strconv.AppendInt(o.row[:0], int64(round), 10)
	b = append(append(b, ','), class...)
	b = strconv.AppendInt(append(b, ','), int64(f.Clients), 10)
	for _, m := range f.Metrics {
		b = appendValues(b, m.Mean, m.Worst, m.Jain)
	}
	o.row = append(appendValues(b, f.Loss, f.WorstLoss), '\n')
	_, _ = o.all.Write(o.row) // Flush returns the error
}

// appendValues appends cells, empty of what does not exist. They read back to the same bits.
func appendValues(b []byte, values ...float64) []byte {
	for _, v := range values {
		if b = append(b, ','); !math.IsNaN(v) {
			b = strconv.AppendFloat(b, v, 'g', -1, 64)
		}
	}
	return b
}

// Flush implements [metrics.Flusher].
func (o *output) Flush() error { return errors.Join(o.clients.Flush(), o.all.Flush()) }
