package ui

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"io"

	"fedpace/metrics/page"
)

// maxPoints bounds the rounds of a curve in a file, beside those that were evaluated.
const maxPoints = 1 << 14

// Export writes the library as one file that needs nothing else: the page with the list, each
// run's curves and its own view. Curves of very long runs are thinned, and say so.
func (l *Library) Export(w io.Writer) error {
	text, err := l.listJSON()
	if err != nil {
		return err
	}
	documents := []page.Document{{ID: "runs", Text: text}}
	for _, r := range l.runs {
		if r.bad != nil {
			continue
		}
		c, err := r.read()
		if err != nil {
			return err
		}
		columns, err := c.encode(maxPoints)
		if err != nil {
			return err
		}
		view, err := r.snapshot()
		if err != nil {
			return err
		}
		documents = append(documents, page.Document{ID: "curves-" + r.id, Text: packed(columns)}, page.Document{ID: "snapshot-" + r.id, Text: packed(view)})
	}
	return page.Write(w, documents...)
}

// packed is bytes as text in a page: gzip in base64.
func packed(b []byte) []byte {
	var small bytes.Buffer
	z := gzip.NewWriter(&small)
	_, _ = z.Write(b) // to memory
	_ = z.Close()
	return base64.StdEncoding.AppendEncode(nil, small.Bytes())
}
