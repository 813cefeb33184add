package plan

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"strings"

	"fedpace/metrics/figure"
	"fedpace/metrics/page"
)

// inlineSVG returns a panel as an svg element that stands within an HTML page. What precedes the
// element in an SVG file, such as the XML header, is cut off.
func inlineSVG(panel figure.Panel) (string, error) {
	var b bytes.Buffer
	if err := figure.Write(&b, []figure.Panel{panel}); err != nil {
		return "", err
	}
	text := b.String()
	start := strings.Index(text, "<svg")
	if start < 0 {
		return "", fmt.Errorf("%s is drawn without an svg element", panel.Title)
	}
	return text[start:], nil
}

// document is an HTML text that grows.
type document struct{ strings.Builder }

// add appends a format of HTML with texts, which are escaped.
func (d *document) add(format string, texts ...string) {
	escaped := make([]any, len(texts))
	for i, text := range texts {
		escaped[i] = html.EscapeString(text)
	}
	fmt.Fprintf(d, format, escaped...)
}

// addEach appends a format of HTML for each of some texts, which are escaped.
func (d *document) addEach(format string, texts []string) {
	for _, text := range texts {
		d.add(format, text)
	}
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
	var d document
	d.add("<h2>Recommended: %s</h2>\n", p.Chosen.Name)
	notes := []string{about, fmt.Sprintf("%s runs it; %s has every setting.", ConfigFile, TableFile)}
	d.addEach(noteFormat, notes)
	if err := d.addFigures(panels); err != nil {
		return err
	}
	d.addSettings(rows, omitted)
	d.addUnknown(p.Unknown, p.Impossible)
	d.add("<p class=\"quiet small\">Times are virtual, those of the simulated clock. " +
		"* marks the recommended setting.</p>\n")
	return page.WritePlain(w, "A plan for "+p.Chosen.real.Name, p.Reason, []byte(d.String()))
}

// noteFormat is the format of a note.
const noteFormat = `<p class="quiet">%s</p>` + "\n"

// addFigures appends panels as pictures.
func (d *document) addFigures(panels []figure.Panel) error {
	d.add(`<div class="charts">` + "\n")
	for _, panel := range panels {
		picture, err := inlineSVG(panel)
		if err != nil {
			return err
		}
		d.add(`<figure class="print" role="img" aria-label="%s, against %s">`, panel.Title, panel.X)
		// Names are escaped in it already.
		d.WriteString(picture)
		d.add("</figure>\n")
	}
	d.add("</div>\n")
	return nil
}

// addSettings appends the table of settings, whose first row is its head, and what it omits. The mark of
// the recommended setting stands before its name, in one cell.
func (d *document) addSettings(rows [][]string, omitted string) {
	d.add(`<section class="card">` + "\n<h2>Settings</h2>\n")
	if omitted != "" {
		d.add(`<p class="quiet small">%s</p>`+"\n", omitted)
	}
	d.add(`<div class="scroll" tabindex="0" role="region" aria-label="Settings"><table>` + "\n")
	for i, cells := range rows {
		mark := cells[0]
		name := cells[1]
		values := cells[2:]
		marked := strings.TrimSpace(mark + " " + name)
		if i == 0 {
			d.add("<thead><tr>")
			d.addEach(`<th scope="col">%s</th>`, append([]string{marked}, values...))
			d.add("</tr></thead>\n<tbody>\n")
			continue
		}
		d.add(`<tr><th scope="row">%s</th>`, marked)
		d.addEach("<td>%s</td>", values)
		d.add("</tr>\n")
	}
	d.add("</tbody>\n</table></div>\n</section>\n")
}

// addUnknown appends what the plan does not know, and the points that make no configuration.
func (d *document) addUnknown(notes, impossible []string) {
	d.add("<section>\n<h2>What this does not know</h2>\n")
	d.addEach(noteFormat, notes)
	if len(impossible) > 0 {
		d.add(
			"<details><summary>Points of the grid that make no configuration: %s</summary>\n<p>",
			fmt.Sprint(len(impossible)),
		)
		d.addEach("<code>%s</code><br>", impossible)
		d.add("</p>\n</details>")
	}
	d.add("\n</section>\n")
}
