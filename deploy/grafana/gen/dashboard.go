package main

// Dashboard is the part of Grafana's dashboard model, schema version 39
// (Grafana 11), that these dashboards use.
type Dashboard struct {
	UID           string     `json:"uid"`
	Title         string     `json:"title"`
	Description   string     `json:"description"`
	Tags          []string   `json:"tags"`
	Editable      bool       `json:"editable"`
	SchemaVersion int        `json:"schemaVersion"`
	Refresh       string     `json:"refresh"`
	Time          TimeRange  `json:"time"`
	GraphTooltip  int        `json:"graphTooltip"` // 1: one crosshair for all panels
	Templating    Templating `json:"templating"`
	Links         []Link     `json:"links"`
	Panels        []Panel    `json:"panels"`
}

// TimeRange is in wall time.
type TimeRange struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Templating holds the variables that the reader sets.
type Templating struct {
	List []Variable `json:"list"`
}

// Variable is one of them.
type Variable struct {
	Name       string      `json:"name"`
	Label      string      `json:"label"`
	Type       string      `json:"type"` // datasource or query
	Query      any         `json:"query"`
	Datasource *Datasource `json:"datasource,omitempty"`
	Refresh    int         `json:"refresh,omitempty"` // 2: when the time range changes
	Sort       int         `json:"sort,omitempty"`
}

// Datasource names where a query goes.
type Datasource struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

// Link leads to the other dashboards.
type Link struct {
	Title       string   `json:"title"`
	Type        string   `json:"type"`
	Tags        []string `json:"tags"`
	AsDropdown  bool     `json:"asDropdown"`
	IncludeVars bool     `json:"includeVars"`
	KeepTime    bool     `json:"keepTime"`
}

// Panel is a chart, or the title of a row.
type Panel struct {
	ID              int              `json:"id"`
	Type            string           `json:"type"`
	Title           string           `json:"title"`
	Description     string           `json:"description,omitempty"`
	GridPos         GridPos          `json:"gridPos"`
	Datasource      *Datasource      `json:"datasource,omitempty"`
	Targets         []Target         `json:"targets,omitempty"`
	Transformations []Transformation `json:"transformations,omitempty"`
	FieldConfig     *FieldConfig     `json:"fieldConfig,omitempty"`
	Options         map[string]any   `json:"options,omitempty"`
	Collapsed       *bool            `json:"collapsed,omitempty"` // of rows
}

// GridPos is a place on a grid 24 wide.
type GridPos struct {
	X int `json:"x"`
	Y int `json:"y"`
	W int `json:"w"`
	H int `json:"h"`
}

// Target is a query.
type Target struct {
	RefID        string      `json:"refId"`
	Datasource   *Datasource `json:"datasource"`
	Expr         string      `json:"expr"`
	LegendFormat string      `json:"legendFormat,omitempty"`
	Format       string      `json:"format,omitempty"` // table or heatmap
	Instant      bool        `json:"instant,omitempty"`
	Range        bool        `json:"range,omitempty"`
}

// Transformation changes the answers before they are drawn.
type Transformation struct {
	ID      string         `json:"id"`
	Options map[string]any `json:"options"`
}

// FieldConfig says how values are drawn.
type FieldConfig struct {
	Defaults  FieldDefaults   `json:"defaults"`
	Overrides []FieldOverride `json:"overrides"`
}

// FieldDefaults hold for all series of a panel.
type FieldDefaults struct {
	Unit   string         `json:"unit,omitempty"`
	Min    *float64       `json:"min,omitempty"`
	Max    *float64       `json:"max,omitempty"`
	Custom map[string]any `json:"custom,omitempty"`
	Links  []FieldLink    `json:"links,omitempty"`
}

// FieldLink leads from a value to a page.
type FieldLink struct {
	Title string `json:"title"`
	URL   string `json:"url"`
}

// FieldOverride holds for the series that it matches.
type FieldOverride struct {
	Matcher    Matcher    `json:"matcher"`
	Properties []Property `json:"properties"`
}

// Matcher finds series.
type Matcher struct {
	ID      string `json:"id"`
	Options string `json:"options"`
}

// Property is one setting.
type Property struct {
	ID    string `json:"id"`
	Value any    `json:"value"`
}
