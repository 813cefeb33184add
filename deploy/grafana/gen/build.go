package main

import "fmt"

// source is the data source that the reader chooses.
var source = &Datasource{Type: "prometheus", UID: "${datasource}"}

const (
	tag       = "fedpace"
	gridWidth = 24
)

// dashboard makes one with its variables and its panels, row by row.
func dashboard(uid, title, about string, variables []Variable, rows ...row) Dashboard {
	d := Dashboard{
		UID: uid, Title: title, Description: about, Tags: []string{tag}, Editable: true, SchemaVersion: 39,
		Refresh: "5s", Time: TimeRange{From: "now-30m", To: "now"}, GraphTooltip: 1,
		Links: []Link{{Title: "fedpace", Type: "dashboards", Tags: []string{tag}, AsDropdown: true, IncludeVars: true, KeepTime: true}},
	}
	d.Templating.List = append([]Variable{{Name: "datasource", Label: "Data source", Type: "datasource", Query: "prometheus"}}, variables...)
	y := 0
	for _, r := range rows {
		if r.title != "" {
			open := false
			d.add(Panel{Type: "row", Title: r.title, Collapsed: &open}, GridPos{0, y, gridWidth, 1})
			y++
		}
		for i, p := range r.panels {
			from, to := gridWidth*i/len(r.panels), gridWidth*(i+1)/len(r.panels)
			d.add(p, GridPos{from, y, to - from, r.height})
		}
		y += r.height
	}
	return d
}

func (d *Dashboard) add(p Panel, at GridPos) {
	p.ID, p.GridPos = len(d.Panels)+1, at
	d.Panels = append(d.Panels, p)
}

// row is panels of one height that share the width.
type row struct {
	title  string // "": none is shown
	height int
	panels []Panel
}

// choose is a variable over the values of a label.
func choose(name, label, query string) Variable {
	return Variable{
		Name: name, Label: label, Type: "query", Datasource: source, Refresh: 2, Sort: 1,
		Query: map[string]string{"query": query, "refId": name},
	}
}

// theRun are the variables that choose one run.
var theRun = []Variable{
	choose("run", "Run", "label_values(fedpace_round, run)"),
	choose("schedule", "Schedule", `label_values(fedpace_round{run="$run"}, schedule)`),
}

// of restricts a metric to the run, and to further labels.
func of(metric string, labels ...string) string {
	s := metric + `{run="$run", schedule="$schedule"`
	for _, l := range labels {
		s += ", " + l
	}
	return s + "}"
}

// rate is a counter's, per second of wall time.
func rate(counter string) string { return "rate(" + counter + "[$__rate_interval])" }

// query is a query with the name of its series.
func query(expr, legend string) Target { return Target{Expr: expr, LegendFormat: legend, Range: true} }

// panel makes one whose queries are named A, B and so on.
func panel(kind, title, about, unit string, targets ...Target) Panel {
	p := Panel{
		Type: kind, Title: title, Description: about, Datasource: source, Targets: targets,
		FieldConfig: &FieldConfig{Defaults: FieldDefaults{Unit: unit}, Overrides: []FieldOverride{}},
	}
	for i := range p.Targets {
		p.Targets[i].RefID, p.Targets[i].Datasource = string(rune('A'+i)), source
	}
	return p
}

// series draws against wall time.
func series(title, about, unit string, targets ...Target) Panel {
	p := panel("timeseries", title, about, unit, targets...)
	p.FieldConfig.Defaults.Custom = map[string]any{"lineWidth": 1, "fillOpacity": 5, "showPoints": "auto"}
	p.Options = map[string]any{
		"legend":  map[string]any{"displayMode": "list", "placement": "bottom", "showLegend": true},
		"tooltip": map[string]any{"mode": "multi", "sort": "desc"},
	}
	return p
}

// stacked draws parts of a whole.
func stacked(p Panel) Panel {
	p.FieldConfig.Defaults.Custom["stacking"] = map[string]any{"mode": "normal", "group": "A"}
	p.FieldConfig.Defaults.Custom["fillOpacity"] = 40
	return p
}

// between sets the axis' limits.
func between(lo, hi float64, p Panel) Panel {
	p.FieldConfig.Defaults.Min, p.FieldConfig.Defaults.Max = &lo, &hi
	return p
}

// rightAxis draws one series against an axis of its own.
func rightAxis(name string, p Panel) Panel {
	p.FieldConfig.Overrides = append(p.FieldConfig.Overrides, FieldOverride{
		Matcher{"byName", name}, []Property{{"custom.axisPlacement", "right"}},
	})
	return p
}

// value shows the newest number.
func value(title, about, unit, expr string) Panel {
	q := Target{Expr: expr, Instant: true}
	p := panel("stat", title, about, unit, q)
	p.Options = map[string]any{
		"colorMode": "value", "graphMode": "none", "justifyMode": "auto", "textMode": "value",
		"reduceOptions": map[string]any{"calcs": []string{"lastNotNull"}, "fields": "", "values": false},
	}
	return p
}

// heatmap shows a histogram over wall time.
func heatmap(title, about, expr string) Panel {
	p := panel("heatmap", title, about, "s", Target{Expr: expr, LegendFormat: "{{le}}", Format: "heatmap", Range: true})
	p.Options = map[string]any{
		"calculate": false,
		"yAxis":     map[string]any{"unit": "s", "axisPlacement": "left"},
		"color":     map[string]any{"mode": "scheme", "scheme": "Blues", "steps": 64, "exponent": 0.5},
		"cellGap":   1,
		"tooltip":   map[string]any{"mode": "single", "yHistogram": true},
		"legend":    map[string]any{"show": true},
	}
	return p
}

// against draws the series of some queries against that of the first, which is
// virtual time or rounds: points of the same scrape are joined by their time.
func against(title, about, unit, xUnit string, x Target, ys ...Target) Panel {
	p := panel("xychart", title, about, unit, append([]Target{x}, ys...)...)
	p.Transformations = []Transformation{{ID: "joinByField", Options: map[string]any{"byField": "Time", "mode": "inner"}}}
	p.FieldConfig.Defaults.Custom = map[string]any{"show": "points+lines", "lineWidth": 1, "pointSize": map[string]any{"fixed": 3}}
	p.FieldConfig.Overrides = append(p.FieldConfig.Overrides, FieldOverride{
		Matcher{"byName", x.LegendFormat}, []Property{{"unit", xUnit}, {"custom.axisLabel", x.LegendFormat}},
	})
	byName := func(name string) map[string]any {
		return map[string]any{"matcher": map[string]any{"id": "byName", "options": name}}
	}
	var drawn []any
	for _, y := range ys {
		drawn = append(drawn, map[string]any{"x": byName(x.LegendFormat), "y": byName(y.LegendFormat), "name": map[string]any{"fixed": y.LegendFormat}})
	}
	p.Options = map[string]any{
		"mapping": "manual", "series": drawn,
		"legend":  map[string]any{"displayMode": "list", "placement": "bottom", "showLegend": true},
		"tooltip": map[string]any{"mode": "single"},
	}
	return p
}

// table shows the newest values side by side, a line for each set of labels.
func table(title, about string, columns []column) Panel {
	var targets []Target
	rename, hide := map[string]any{}, map[string]any{"Time": true}
	order := map[string]any{"run": 0, "schedule": 1, "task": 2}
	for i, c := range columns {
		targets = append(targets, Target{Expr: c.expr, Format: "table", Instant: true})
		name := fmt.Sprintf("Value #%c", 'A'+i)
		rename[name], order[name] = c.name, 3+i
	}
	p := panel("table", title, about, "", targets...)
	p.Transformations = []Transformation{
		{ID: "merge", Options: map[string]any{}},
		{ID: "organize", Options: map[string]any{"excludeByName": hide, "renameByName": rename, "indexByName": order}},
	}
	for _, c := range columns {
		if c.unit != "" {
			p.FieldConfig.Overrides = append(p.FieldConfig.Overrides, FieldOverride{Matcher{"byName", c.name}, []Property{{"unit", c.unit}}})
		}
	}
	p.FieldConfig.Overrides = append(p.FieldConfig.Overrides, FieldOverride{
		Matcher{"byName", "run"},
		[]Property{{"links", []FieldLink{{
			"This run",
			"/d/fedpace-run?var-run=${__data.fields.run}&var-schedule=${__data.fields.schedule}&${__url_time_range}",
		}}}},
	})
	p.Options = map[string]any{"showHeader": true, "cellHeight": "sm"}
	return p
}

type column struct{ name, unit, expr string }
