package config

import (
	"slices"
	"time"

	"fedpace/actors/fleet"
	"fedpace/metrics/carbon"
)

// Carbon names a trace of what the grid emits, and costs, hour by hour. Nothing of it has a
// default, so that no run counts with numbers of another place or year.
type Carbon struct {
	File string `key:"file" is:"null,path" help:"CSV of CO2 and cost of energy by hour and zone"`
	// Columns are those of the time, the zone, the grams of CO2 per kWh and, where there is a
	// fourth, the price per kWh.
	Columns []string `key:"columns" is:"null" help:"its columns: time, zone, grams of CO2 a kWh, perhaps price a kWh"`
	Start   string   `key:"start" is:"null" help:"virtual time 0, as 2024-03-01T10:00:00Z"`
	Zone    string   `key:"zone" is:"null" help:"default zone, such as DEU"`
	// Source and Year say where the numbers come from. Results show them.
	Source string `key:"source" is:"null" help:"publisher of the file"`
	Year   int    `key:"year" is:"null" range:"[1990,2200]" help:"year of the numbers"`
}

// StartTime returns the time on the calendar of virtual time 0, in UTC. It is the zero time if the
// configuration sets none.
func (c *Carbon) StartTime() time.Time {
	// checkCarbon has made sure that the text can be parsed.
	start, _ := time.Parse(time.RFC3339, c.Start)
	return start.UTC()
}

// Names returns the names of the file's columns, as the configuration lists them. The price is
// empty if there are only three columns; there must be three at least.
func (c *Carbon) Names() carbon.Columns {
	names := carbon.Columns{Time: c.Columns[0], Zone: c.Columns[1], Grams: c.Columns[2]}
	if len(c.Columns) > 3 {
		names.Price = c.Columns[3]
	}
	return names
}

// ZoneOf returns the zone of the grid for the clients of a class, given by its index in fleet: that
// of the class itself or, where it names none, that of the group carbon. Any other index is for
// clients without a class.
func (c *Config) ZoneOf(class int) string {
	if class >= 0 && class < len(c.Fleet) && c.Fleet[class].Zone != "" {
		return c.Fleet[class].Zone
	}
	return c.Carbon.Zone
}

// checkCarbon refuses a trace of the grid of which something is not said, zones that are no codes,
// and limits on energy, carbon or cost that the run does not measure. Without any of these keys it
// refuses nothing.
func (c *Config) checkCarbon() error {
	carbonKeys := &c.Carbon
	stop := &c.Stop
	// Emissions and costs follow from energy, and energy from the watts of every class.
	needsPower := stop.EnergyJoules > 0 || stop.Equal == "energy" || carbonKeys.File != ""
	powerless := slices.IndexFunc(c.Fleet, func(class fleet.Class) bool { return class.Watts == (fleet.Watts{}) })
	switch {
	case stop.Equal != "" && stop.Rounds == 0 && stop.EqualRuntimeRounds == 0:
		return problem("stop.equal", nil, "is for stop.equal_runtime_rounds, which is not set (set it)")
	case stop.Equal == "carbon" && carbonKeys.File == "":
		return problem("stop.equal", nil, "carbon needs a trace of the grid (set carbon.file)")
	case needsPower && (len(c.Fleet) == 0 || powerless >= 0):
		return problem("fleet", []string{"stop.energy_joules", "carbon.file"},
			"has no watts in each of its classes, so energy is not known (set fleet[].watts)")
	case carbonKeys.File == "" && stop.CarbonGrams > 0:
		return problem("stop.carbon_grams", nil, "needs a trace of the grid (set carbon.file)")
	case stop.EnergyCost > 0 && (carbonKeys.File == "" || len(carbonKeys.Columns) < 4):
		return problem(
			"stop.energy_cost",
			nil,
			"needs a trace with prices (set carbon.file, and a fourth of carbon.columns)",
		)
	// From here on, the file and what describes it are checked against each other.
	case carbonKeys.File == "" && !carbonKeys.isEmpty():
		return problem(
			"carbon.file",
			nil,
			"is not set, so the other keys of carbon say nothing (set it, or remove them)",
		)
	case carbonKeys.File == "":
		return nil
	case len(carbonKeys.Columns) != 3 && len(carbonKeys.Columns) != 4:
		return problem("carbon.columns", nil, "are %d (the file's names of time, zone, grams a kWh and, if wanted, "+
			"price a kWh)", len(carbonKeys.Columns))
	case carbonKeys.Source == "":
		return problem("carbon.source", nil, "is not set (who publishes the file)")
	case carbonKeys.Year == 0:
		return problem("carbon.year", nil, "is not set (the year that the numbers are of)")
	}
	if _, err := time.Parse(time.RFC3339, carbonKeys.Start); err != nil {
		return problem("carbon.start", nil, "%.40q is not a time (such as 2024-03-01T10:00:00Z)", carbonKeys.Start)
	}
	// Every class needs a zone, as its clients draw their energy somewhere.
	for i := range c.Fleet {
		zone := c.ZoneOf(i)
		if zone == "" {
			return problem(
				"carbon.zone",
				nil,
				"is not set, and class %s names no zone (set one of them)",
				c.Fleet[i].Name,
			)
		}
		if err := carbon.CheckZone(zone); err != nil {
			return problem("carbon.zone", nil, "of class %s: %v", c.Fleet[i].Name, err)
		}
	}
	return nil
}

// isEmpty reports whether no key of the group carbon is set, so that the run does not count what it
// emits.
func (c *Carbon) isEmpty() bool {
	return c.File == "" &&
		len(c.Columns) == 0 &&
		c.Start == "" &&
		c.Zone == "" &&
		c.Source == "" &&
		c.Year == 0
}

// CountsUse reports whether the run must add up what clients use, such as energy, bytes or hours: because a limit
// of stop asks for it, because stop.equal makes one of these the measure of an equal runtime, or because of a trace
// of the grid.
func (c *Config) CountsUse() bool {
	s := &c.Stop
	hasBudget := s.EnergyJoules > 0 ||
		s.Bytes > 0 ||
		s.CarbonGrams > 0 ||
		s.EnergyCost > 0 ||
		s.ClientHours > 0
	return hasBudget || c.Carbon.File != "" || s.Equal != ""
}
