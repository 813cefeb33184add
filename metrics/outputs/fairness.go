package outputs

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"fedpace/learn/metric"
	"fedpace/metrics"
)

// The evaluations by client in a run's folder.
const (
	ClientsFile  = "client_evaluations.csv"
	FairnessFile = "fairness.csv"
)

// fairnessHeader returns the first line of fairness.csv for a run with the metrics of list: three
// columns for each metric, between those of the class and those of the loss.
func fairnessHeader(list []metric.Metric) string {
	header := "round,class,clients"
	for _, m := range list {
		header += fmt.Sprintf(",mean_%[1]s,worst_decile_%[1]s,jain_%[1]s", m.Name)
	}
	return header + ",mean_loss,worst_decile_loss"
}

func init() {
	metrics.Sinks.Register("fairness", "evaluations on the clients' own "+
		"samples in "+ClientsFile+" and "+FairnessFile+", where evaluate.clients asks for them", Fairness{})
}

// Fairness is the output of evaluations by client, in tables that only grow:
// client_evaluations.csv has a row for each client and evaluation, fairness.csv one for each
// evaluation and, where clients have classes, for each class.
type Fairness struct{}

// Files implements [metrics.Sink].
func (Fairness) Files() []string { return []string{ClientsFile, FairnessFile} }

// Open implements [metrics.Sink].
func (Fairness) Open(run *metrics.Run) (metrics.Output, error) { return &fairness{run: run}, nil }

// fairness is the output of one run.
type fairness struct {
	run          *metrics.Run
	clients, all *bufio.Writer
	// row is the line that is being written. Its memory is reused.
	row []byte
}

// Start implements [metrics.Starter]: it opens client_evaluations.csv and fairness.csv in the run's
// folder, with their headers. A resumed run continues them.
func (o *fairness) Start(s *metrics.Start) (err error) {
	columns := append([]string{"round,client,class,samples,loss"}, metric.Names(o.run.Metrics)...)
	o.clients, err = appendTo(s, ClientsFile, strings.Join(columns, ","))
	if err != nil {
		return err
	}
	o.all, err = appendTo(s, FairnessFile, fairnessHeader(o.run.Metrics))
	return err
}

// Round implements [metrics.Output]: evaluations arrive by Clients.
func (o *fairness) Round(*metrics.Round) error { return nil }

// Clients implements [metrics.ClientsObserver]: it writes evaluation e, a row for each client to
// one file, and to the other a row for all clients and one for each class.
func (o *fairness) Clients(e *metrics.ClientEvaluation) error {
	for _, s := range e.Scores {
		row := fmt.Appendf(o.row[:0], "%d,%d,%s,%d", e.Round, s.Client, o.run.ClassName(s.Client), s.Samples)
		row = appendValues(row, s.Loss)
		row = appendValues(row, s.Metrics...)
		o.row = append(row, '\n')
		// The writer keeps the error, and Flush returns it.
		_, _ = o.clients.Write(o.row)
	}
	const allClients = ""
	o.writeSummary(e.Round, allClients, &e.All)
	for i := range e.Classes {
		o.writeSummary(e.Round, e.Classes[i].Class, &e.Classes[i].Fairness)
	}
	return o.Flush()
}

// writeSummary writes a row of fairness.csv: the fairness f among the clients of one class after a round.
// class is empty for all clients.
func (o *fairness) writeSummary(round int, class string, f *metrics.Fairness) {
	row := fmt.Appendf(o.row[:0], "%d,%s,%d", round, class, f.Clients)
	for _, m := range f.Metrics {
		row = appendValues(row, m.Mean, m.Worst, m.Jain)
	}
	row = appendValues(row, f.Loss, f.WorstLoss)
	o.row = append(row, '\n')
	// The writer keeps the error, and Flush returns it.
	_, _ = o.all.Write(o.row)
}

// appendValues appends the values to b as cells of a CSV row, each behind a comma. A NaN is an
// empty cell; all other values read back to the same bits.
func appendValues(b []byte, values ...float64) []byte {
	for _, v := range values {
		b = append(b, ',')
		if !math.IsNaN(v) {
			b = strconv.AppendFloat(b, v, 'g', -1, 64)
		}
	}
	return b
}

// Flush implements [metrics.Flusher].
func (o *fairness) Flush() error { return errors.Join(o.clients.Flush(), o.all.Flush()) }

// appendTo opens a file that only grows, through a buffer. A new one begins with the header.
func appendTo(s *metrics.Start, name, header string) (*bufio.Writer, error) {
	file, err := s.Append(name)
	if err != nil {
		return nil, err
	}
	w := bufio.NewWriter(file)
	if file.Size() == 0 {
		// The writer keeps the error, and Flush returns it.
		_, _ = w.WriteString(header + "\n")
	}
	return w, w.Flush()
}
