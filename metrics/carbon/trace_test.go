package carbon

import (
	"math"
	"strings"
	"testing"
	"time"
)

// file has three hours of two zones, as a publisher may name the columns.
const file = `datetime,country,gCO2/kWh,eur
2024-03-01 10:00,DEU,400,0.10
2024-03-01 11:00,DEU,100,-0.02
2024-03-01 12:00,DEU,250,0.30
2024-03-01T10:00:00Z,FRA,50,0.2
2024-03-01T12:00:00+01:00,FRA,60,0.2
`

// columns are the names in that file.
var columns = Columns{Time: "datetime", Zone: "country", Grams: "gCO2/kWh", Price: "eur"}

// read reads the file.
func read(t *testing.T) *Trace {
	t.Helper()
	trace, err := Read(strings.NewReader(file), columns)
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

// clock is a time on the day of the file.
func clock(hour, minute int) time.Time { return time.Date(2024, 3, 1, hour, minute, 0, 0, time.UTC) }

// The values are worked out by hand: kWh of each hour times its grams and its price.
func TestTrace_Draw(t *testing.T) {
	trace := read(t)
	for _, c := range []struct {
		name        string
		zone        string
		watts       float64
		begin       time.Time
		duration    time.Duration
		grams, cost float64
	}{
		{"an hour", "DEU", 1000, clock(10, 0), time.Hour, 400, 0.10},
		{"half of it", "DEU", 500, clock(10, 30), 30 * time.Minute, 100, 0.025},
		// 0.25 h at 400 and 0.5 h at 100, of 2 kW: 0.5 · 400 + 1 · 100, and 0.5 · 0.10 − 1 · 0.02.
		{"over an hour's end", "DEU", 2000, clock(10, 45), 45 * time.Minute, 300, 0.03},
		{"three hours", "DEU", 1000, clock(10, 0), 3 * time.Hour, 750, 0.38},
		{"another zone", "FRA", 1000, clock(11, 0), time.Hour, 60, 0.2},
		{"no time", "DEU", 1000, clock(10, 0), 0, 0, 0},
	} {
		grams, cost, err := trace.Draw(c.zone, c.watts, c.begin, c.duration)
		if err != nil || math.Abs(grams-c.grams) > 1e-12 || math.Abs(cost-c.cost) > 1e-12 {
			t.Errorf("%s: %v g, %v, %v, want %v g and %v", c.name, grams, cost, err, c.grams, c.cost)
		}
	}
}

func TestTrace_NothingIsFilledIn(t *testing.T) {
	trace := read(t)
	for _, c := range []struct {
		name, zone string
		begin      time.Time
		want       string
	}{
		{"after the last hour", "DEU", clock(12, 30), "no hour of DEU at 2024-03-01 13:00 UTC"},
		{"before the first", "DEU", clock(9, 59), "no hour of DEU at 2024-03-01 09:59 UTC"},
		{"a zone that is not there", "POL", clock(10, 0), "no zone POL"},
	} {
		if _, _, err := trace.Draw(c.zone, 1, c.begin, time.Hour); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}

func TestRead_MistakesAreNamed(t *testing.T) {
	const header = "datetime,country,gCO2/kWh,eur\n"
	for _, c := range []struct{ name, text, want string }{
		{"no column", "hour,country,gCO2/kWh,eur\n", `line 1: there is no column "datetime"`},
		{"no rows", header, "line 2: the file has no rows"},
		{"two letters", header + "2024-03-01 10:00,DE,1,1\n", `line 2: "DE" is not a zone`},
		{"small letters", header + "2024-03-01 10:00,deu,1,1\n", `line 2: "deu" is not a zone`},
		{"no intensity", header + "2024-03-01 10:00,DEU,,1\n", `line 2: grams: "" is not a number`},
		{"below zero", header + "2024-03-01 10:00,DEU,-1,1\n", "line 2: grams"},
		{"no price", header + "2024-03-01 10:00,DEU,1,\n", `line 2: price: "" is not a number`},
		{"empty lines before", header + "\n\n2024-03-01 10:00,DE,1,1\n", `line 4: "DE" is not a zone`},
		{"a quote", header + "2024-03-01 10:00,DEU,1,1\n2024-03-01 11:00,D\"EU,1,1\n", "line 3"},
		{"no time", header + "yesterday,DEU,1,1\n", `line 2: "yesterday" is not a time`},
		{
			"a missing hour", header + "2024-03-01 10:00,DEU,1,1\n2024-03-01 12:00,DEU,1,1\n",
			"line 3: the hour of DEU is 2024-03-01 12:00 UTC, want 2024-03-01 11:00 UTC",
		},
		{"an hour twice", header + "2024-03-01 10:00,DEU,1,1\n2024-03-01 10:00,DEU,1,1\n", "line 3: the hour of DEU"},
	} {
		if _, err := Read(strings.NewReader(c.text), columns); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}
