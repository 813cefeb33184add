package outputs

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"fedpace/internal/regular"
	"fedpace/learn/metric"
	"fedpace/metrics"
)

// firstMetric is the place of the first metric in a row of client_evaluations.csv, behind the round, the
// client, its class, its samples and its loss.
const firstMetric = 5

// ReadEvaluation reads the last evaluation from the client_evaluations.csv at path. list are the metrics
// of its run. The result has no Classes; it is nil if the file has no evaluation.
func ReadEvaluation(path string, list []metric.Metric) (*metrics.ClientEvaluation, error) {
	file, _, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	rows := csv.NewReader(file)
	rows.FieldsPerRecord = firstMetric + len(list)
	// parseScore keeps nothing of a row, so its memory can be used again.
	rows.ReuseRecord = true
	// The header is skipped.
	if _, err := rows.Read(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var last metrics.ClientEvaluation
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		number, score, err := parseScore(row)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		// Another evaluation begins, so that the one before was not the last.
		if number != last.Round {
			last = metrics.ClientEvaluation{Round: number}
		}
		last.Scores = append(last.Scores, score)
	}
	if len(last.Scores) == 0 {
		return nil, nil
	}
	last.All = metrics.FairnessOf(list, last.Scores)
	return &last, nil
}

// parseScore reads from a row of client_evaluations.csv the number of its round and the score of
// its client. An empty cell is NaN: not measured. The error joins those of all cells.
func parseScore(row []string) (number int, score metric.ClientScore, err error) {
	value := func(cell string) float64 {
		if cell == "" {
			return math.NaN()
		}
		v, cellErr := strconv.ParseFloat(cell, 64)
		err = errors.Join(err, cellErr)
		return v
	}
	// The columns are round, client, class, samples and loss, and then the metrics. The class is not needed.
	number = int(value(row[0]))
	score.Client = int(value(row[1]))
	score.Samples = int(value(row[3]))
	score.Loss = value(row[4])
	for _, cell := range row[firstMetric:] {
		score.Metrics = append(score.Metrics, value(cell))
	}
	return number, score, err
}
