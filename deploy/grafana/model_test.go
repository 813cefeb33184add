package grafana

// Dashboard is the part of Grafana's dashboard model, schema version 39
// (Grafana 11), that the tests look at.
type Dashboard struct {
	UID, Title, Description string
	Tags                    []string
	Templating              struct{ List []Variable }
	Annotations             struct{ List []Annotation }
	Panels                  []Panel
}

// Variable is set by the reader.
type Variable struct {
	Name, Type string
	Query      any
	Datasource *Datasource
}

// Annotation marks times in every chart.
type Annotation struct {
	Name, Expr string
	Datasource *Datasource
}

// Datasource names where a query goes.
type Datasource struct{ Type, UID string }

// Panel is a chart, or the title of a row.
type Panel struct {
	ID          int
	Type, Title string
	Description string // says "for runs ..." where it is not for all
	Links       []struct{ Title, URL string }
	GridPos     struct{ X, Y, W, H int } // on a grid 24 wide
	Datasource  *Datasource
	Targets     []Target
	FieldConfig *struct {
		Defaults struct {
			Unit       string
			Thresholds *struct{ Steps []any }
		}
	}
	Options   map[string]any
	Collapsed *bool // of rows
}

// Target is a query.
type Target struct {
	RefID                      string
	Datasource                 *Datasource
	Expr, LegendFormat, Format string
	Instant, Range             bool
}

// Matcher finds series.
type Matcher struct{ Options string }
