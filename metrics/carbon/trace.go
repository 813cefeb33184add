package carbon

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"
)

// Columns names what a file calls its columns: the time at which an hour begins, the zone, the
// grams of CO2 for a kilowatt-hour, and its price. Price may be empty: the file then says nothing
// of costs.
type Columns struct {
	Time, Zone, Grams, Price string
}

// Trace is what a kilowatt-hour emits and costs by zone, in hours without a gap.
type Trace struct {
	// zones holds the trace of each zone by its code.
	zones map[string]*zone
}

// zone is the trace of one zone.
type zone struct {
	// start is the first hour.
	start time.Time
	// grams and prices are those of a kilowatt-hour in the hours from start on. prices is empty where
	// the file has none.
	grams, prices []float64
}

// maxRows bounds the rows of a file: a century of hours of a zone, or all zones of some years.
const maxRows = 5_000_000

// Read reads a CSV file with a header. Times are in RFC 3339 (2024-01-31T13:00:00Z) or in UTC without a
// zone (2024-01-31 13:00). Rows of a zone stand in the order of time, an hour apart. Errors name the
// line of the file.
func Read(r io.Reader, names Columns) (*Trace, error) {
	rows := csv.NewReader(r)
	header, err := rows.Read()
	if err != nil {
		return nil, fmt.Errorf("line 1: no header: %w", err)
	}
	places, err := placesOf(header, names)
	if err != nil {
		return nil, err
	}
	t := &Trace{zones: map[string]*zone{}}
	for count := 1; ; count++ {
		fields, err := rows.Read()
		switch {
		case errors.Is(err, io.EOF) && len(t.zones) == 0:
			return nil, errors.New("line 2: the file has no rows")
		case errors.Is(err, io.EOF):
			return t, nil
		// The reader's own errors name the line.
		case err != nil:
			return nil, err
		}
		// Rows and lines differ where lines are empty.
		line, _ := rows.FieldPos(0)
		if count > maxRows {
			return nil, fmt.Errorf("line %d: more than %d rows", line, maxRows)
		}
		if err := t.add(fields, places); err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
	}
}

// places are the columns of a file by their number; price is noColumn where it has none.
type places struct{ time, zone, grams, price int }

// noColumn stands for a column that is not wanted.
const noColumn = -1

// placesOf finds the columns with these names in the header of a file. The error names each column
// that is missing.
func placesOf(header []string, names Columns) (p places, err error) {
	find := func(name string) int {
		for i, h := range header {
			if h == name {
				return i
			}
		}
		err = errors.Join(err, fmt.Errorf("line 1: there is no column %q (the header is %q)", name, header))
		return noColumn
	}
	p.time = find(names.Time)
	p.zone = find(names.Zone)
	p.grams = find(names.Grams)
	p.price = noColumn
	// A file without a column of prices is complete.
	if names.Price != "" {
		p.price = find(names.Price)
	}
	return p, err
}

// add adds one row of a file to its zone. p says which of fields holds what. It is an error if the
// row is not one hour after the zone's row before, since a gap would shift all later hours.
func (t *Trace) add(fields []string, p places) error {
	hour, err := parseTime(fields[p.time])
	if err != nil {
		return err
	}
	name := fields[p.zone]
	if err := CheckZone(name); err != nil {
		return err
	}
	grams, err := parseAmount(fields[p.grams])
	if err != nil {
		return fmt.Errorf("grams: %w", err)
	}
	z := t.zones[name]
	// The first row of a zone decides with which hour it begins.
	if z == nil {
		z = &zone{start: hour}
		t.zones[name] = z
	}
	want := z.start.Add(time.Duration(len(z.grams)) * time.Hour)
	if !hour.Equal(want) {
		return fmt.Errorf("the hour of %s is %s, want %s, an hour after the row before", name, utc(hour), utc(want))
	}
	z.grams = append(z.grams, grams)
	// The file says nothing of costs.
	if p.price == noColumn {
		return nil
	}
	// Prices, unlike grams, may be negative.
	price, err := strconv.ParseFloat(fields[p.price], 64)
	if err != nil || math.IsNaN(price) || math.IsInf(price, 0) {
		return fmt.Errorf("price: %q is not a number", fields[p.price])
	}
	z.prices = append(z.prices, price)
	return nil
}

// CheckZone refuses what is not a code of three capital letters, such as DEU (ISO 3166-1 alpha-3).
func CheckZone(name string) error {
	isCode := len(name) == 3
	for _, c := range name {
		isCode = isCode && c >= 'A' && c <= 'Z'
	}
	if !isCode {
		return fmt.Errorf("%.40q is not a zone (three capital letters, such as DEU)", name)
	}
	return nil
}

// parseTime reads a time in RFC 3339, or in a form without a zone, which then is UTC. It returns
// the time in UTC.
func parseTime(text string) (time.Time, error) {
	for _, form := range []string{time.RFC3339, "2006-01-02 15:04", "2006-01-02 15:04:05", "2006-01-02T15:04"} {
		if parsed, err := time.Parse(form, text); err == nil {
			return parsed.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("%.40q is not a time (2024-01-31T13:00:00Z, or 2024-01-31 13:00 in UTC)", text)
}

// parseAmount reads a number of grams, which must be finite and at least 0. The error quotes at
// most 40 characters of text.
func parseAmount(text string) (float64, error) {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || !(x >= 0) || math.IsInf(x, 0) {
		return 0, fmt.Errorf("%.40q is not a number of 0 or more", text)
	}
	return x, nil
}

// utc is a time for a message.
func utc(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

// HasZone reports whether the trace has a zone.
func (t *Trace) HasZone(name string) bool { return t.zones[name] != nil }

// Covers returns an error if the trace lacks the zone with this name or begins after the time
// start. It does not look at the trace's end.
func (t *Trace) Covers(name string, start time.Time) error {
	z := t.zones[name]
	if z == nil {
		return fmt.Errorf("the file has no zone %s", name)
	}
	if start.Before(z.start) {
		return fmt.Errorf("the file begins with %s in zone %s, which is later than %s", utc(z.start), name, utc(start))
	}
	return nil
}

// joulesPerKWh is how many joules a kilowatt-hour has.
const joulesPerKWh = 3.6e6

// Draw returns what drawing a constant power from the grid of a zone emits, in grams of CO2, and costs, in
// the currency of the trace: watts from the time begin on, for a duration. Each hour of the trace counts for
// as long as the power is drawn in it. The cost is 0 where the trace has no prices. It is an error if the
// trace lacks the zone or an hour.
func (t *Trace) Draw(
	name string,
	watts float64,
	begin time.Time,
	duration time.Duration,
) (grams, cost float64, err error) {
	z := t.zones[name]
	if z == nil {
		return 0, 0, fmt.Errorf("carbon: the file has no zone %s", name)
	}
	offset := begin.Sub(z.start)
	for duration > 0 {
		// hour is the place of the hour in the trace.
		hour := int(offset / time.Hour)
		if offset < 0 || hour >= len(z.grams) {
			return 0, 0, fmt.Errorf("carbon: the file has no hour of %s at %s", name, utc(z.start.Add(offset)))
		}
		// part is how long the power is drawn within this hour.
		part := min(duration, time.Duration(hour+1)*time.Hour-offset)
		kWh := float64(watts * part.Seconds() / joulesPerKWh)
		grams += float64(kWh * z.grams[hour])
		if len(z.prices) > 0 {
			cost += float64(kWh * z.prices[hour])
		}
		offset += part
		duration -= part
	}
	return grams, cost, nil
}
