package plan

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"

	"fedpace/metrics/figure"
	"fedpace/metrics/page"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{"svg": inline}).Parse(pageText))

// inline returns a panel as an svg element that stands within an HTML page. What precedes the
// element in an SVG file, such as the XML header, is cut off.
func inline(panel figure.Panel) (template.HTML, error) {
	var b bytes.Buffer
	if err := figure.Write(&b, []figure.Panel{panel}); err != nil {
		return "", err
	}
	text := b.String()
	start := strings.Index(text, "<svg")
	if start < 0 {
		return "", fmt.Errorf("%s is drawn without an svg element", panel.Title)
	}
	return template.HTML(text[start:]), nil //nolint:gosec // what figure writes, names are escaped there
}

// WriteHTML writes the plan to w as one page for a browser: the recommendation, the figures, the
// table, and what is not known. It fails if the curves of trained runs cannot be read.
func (p *Plan) WriteHTML(w io.Writer) error {
	panels, err := p.Panels()
	if err != nil {
		return err
	}
	rows, hidden := p.table()
	omitted, about := p.notes(hidden)
	// The mark of the recommended setting stands before its name, in one cell.
	for i, cells := range rows {
		rows[i] = append([]string{strings.TrimSpace(cells[0] + " " + cells[1])}, cells[2:]...)
	}
	var main bytes.Buffer
	err = pageTemplate.Execute(&main, map[string]any{
		"Chosen":     p.Chosen.Name,
		"Panels":     panels,
		"Head":       rows[0],
		"Rows":       rows[1:],
		"Left":       omitted,
		"Unknown":    p.Unknown,
		"Impossible": p.Impossible,
		"Notes":      []string{about, fmt.Sprintf("%s runs it; %s has every setting.", ConfigFile, TableFile)},
	})
	if err != nil {
		return err
	}
	return page.WritePlain(w, "A plan for "+p.Chosen.real.Name, p.Reason, main.Bytes())
}
