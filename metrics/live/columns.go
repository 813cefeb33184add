package live

import (
	"fmt"
	"math"
	"slices"
	"strconv"
)

// number is a JSON number; null stands for a value that was not measured.
type number float64

// MarshalJSON writes null for NaN and the infinities, which JSON lacks.
func (n number) MarshalJSON() ([]byte, error) { return appendNumber(nil, float64(n)), nil }

func appendNumber(b []byte, v float64) []byte {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return append(b, "null"...)
	}
	return strconv.AppendFloat(b, v, 'g', -1, 64)
}

// column is one value of every point.
type column[T any] struct {
	name string
	of   func(*T) float64
}

// curves are the rounds against virtual time, from a point on.
type curves struct {
	from, each int // the first point's place among all; rounds a point
	points     []point
}

var curveColumns = []column[point]{
	{"round", func(p *point) float64 { return float64(p.round) }},
	{"virtual_seconds", func(p *point) float64 { return p.end.Seconds() }},
	{"local_steps", func(p *point) float64 { return float64(p.steps) }},
	{"learning_rate", func(p *point) float64 { return p.rate }},
	{"loss", (*point).mean},
	{"loss_low", func(p *point) float64 { return p.low }},
	{"loss_high", func(p *point) float64 { return p.high }},
	{"window_loss", func(p *point) float64 { return p.window }},
	{"round_seconds", func(p *point) float64 { return p.duration.Seconds() / float64(p.rounds) }}, // mean
}

// MarshalJSON writes an object with a list for each column.
func (c curves) MarshalJSON() ([]byte, error) {
	return appendColumns(fmt.Appendf(nil, `{"from":%d,"each":%d`, c.from, c.each), c.points, curveColumns), nil
}

// evaluated are the evaluations against virtual time.
type evaluated struct {
	each   int // evaluations a point
	points []evaluation
}

var evaluatedColumns = []column[evaluation]{
	{"round", func(e *evaluation) float64 { return float64(e.round) }},
	{"virtual_seconds", func(e *evaluation) float64 { return e.end.Seconds() }},
	{"loss", func(e *evaluation) float64 { return e.loss }},
	{"accuracy", func(e *evaluation) float64 { return e.accuracy }},
}

// MarshalJSON writes an object with a list for each column.
func (e evaluated) MarshalJSON() ([]byte, error) {
	return appendColumns(fmt.Appendf(nil, `{"each":%d`, e.each), e.points, evaluatedColumns), nil
}

// appendColumns writes the rest of an object: a list for each column.
func appendColumns[T any](b []byte, points []T, columns []column[T]) []byte {
	b = slices.Grow(b, 10*len(points)*len(columns))
	for _, c := range columns {
		b = fmt.Appendf(b, ",%q:[", c.name)
		for i := range points {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendNumber(b, c.of(&points[i]))
		}
		b = append(b, ']')
	}
	return append(b, '}')
}
