package ui

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"io"
	"time"

	"fedpace/experiment/folder"
	"fedpace/experiment/report"
	"fedpace/metrics/page"
)

// maxPoints bounds the rounds of a curve in a file, beside those that were evaluated, which all stay:
// they are what runs are compared by.
const maxPoints = 1 << 14

// Exported is how many runs a file holds.
type Exported struct {
	// Runs is the number of runs in the file, Finished how many of them are complete.
	Runs, Finished int
	// Damaged are the runs that could not be read and were left out.
	Damaged []report.Damaged
}

// Export writes the library to w as one file that needs nothing else: the page with the list, each
// run's curves and its own view. Curves of very long runs are thinned, and say so. A run that
// cannot be read is left out and named in the result; it is an error if none can be read.
// comparison is what a comparison of the runs found, a JSON document of package study that stands
// above the list; nil: the runs were not compared.
func (l *Library) Export(w io.Writer, comparison []byte) (e Exported, err error) {
	runs, err := l.list(time.Now())
	if err != nil {
		return e, err
	}
	var readable []*run
	var documents []page.Document
	// Runs that can be read are worth a page, whatever the others are.
	for _, r := range runs {
		columns, view, err := r.export()
		if err != nil {
			e.Damaged = append(e.Damaged, report.Damaged{Dir: r.Dir, Err: err})
			continue
		}
		readable = append(readable, r)
		documents = append(
			documents,
			page.Document{ID: "curves-" + r.id, Text: packed(columns)},
			page.Document{ID: "snapshot-" + r.id, Text: packed(view)},
		)
	}
	e.Runs = len(readable)
	if e.Runs == 0 {
		return e, errors.New("none of the runs can be read")
	}
	rows := rowsOf(readable)
	// The list says which of the runs are complete.
	for i := range rows {
		if rows[i].State == string(folder.RunComplete) {
			e.Finished++
		}
	}
	text, err := l.listJSON(rows)
	if err != nil {
		return e, err
	}
	documents = append(documents, page.Document{ID: "runs", Text: text})
	if comparison != nil {
		documents = append(documents, page.Document{ID: "comparison", Text: comparison})
	}
	return e, page.Write(w, documents...)
}

// export returns what the file holds of the run: its curves in binary form (see curves.encode),
// with at most about maxPoints rounds, and its own view as JSON.
func (r *run) export() (columns, view []byte, err error) {
	if r.err != nil {
		return nil, nil, r.err
	}
	c, err := r.read()
	if err != nil {
		return nil, nil, err
	}
	columns, err = c.encode(maxPoints)
	if err != nil {
		return nil, nil, err
	}
	view, err = r.snapshot()
	return columns, view, err
}

// packed returns bytes in the form in which they stand as text in a page: compressed with gzip,
// then in base64. The page's script unpacks them.
func packed(b []byte) []byte {
	var small bytes.Buffer
	z := gzip.NewWriter(&small)
	// Writing to memory does not fail.
	_, _ = z.Write(b)
	_ = z.Close()
	return base64.StdEncoding.AppendEncode(nil, small.Bytes())
}
