package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"fedpace/actors/device"
	"fedpace/internal/registry"
)

// Availability says when clients can be chosen, see [device.Availability]. A
// zero number is not set.
type Availability struct {
	Model         string // Always, Bernoulli, Markov, Daily or Trace
	Probability   float64
	PeriodSeconds float64
	OnSeconds     float64
	OffSeconds    float64
	FromHour      float64
	ToHour        float64
	JitterHours   float64
	StartHour     float64
	Zones         []device.Zone
	Sessions      string // path
	Spread        bool
}

// The models of availability.
const (
	Always    = "always"
	Bernoulli = "bernoulli"
	Markov    = "markov"
	Daily     = "daily"
	Trace     = "trace"
)

// Class is a class of devices. What is not given in it is that of all devices:
// network, compute, slowdown, availability, dropout.
type Class struct {
	Name           string
	Weight         float64 // share of the clients, relative to the others'; 0 in all: equal shares
	DownloadMbps   Dist
	UploadMbps     Dist
	SecondsPerStep Dist
	StepCV         float64
	Vary           Vary
	Links          Links
	Slowdown       *Slowdown
	Availability   *Availability
	Dropout        *device.Dropout
	Watts          Watts
}

// Links are link traces to replay.
type Links struct {
	File   string   // path; empty: none
	Traces []string // the traces to use; none: all of the file
}

// Watts is the power that a device draws in each phase of a task. All 0: not
// given.
type Watts struct{ Download, Compute, Upload float64 }

const maxClasses = 1000

var availabilityKeys = []keyOf[Availability]{
	choice("model", "when clients can be chosen", "model of availability", func(a *Availability) *string { return &a.Model }, Always, Bernoulli, Markov, Daily, Trace),
	figure("probability", "bernoulli: of being there in a period; daily: on a day; null: daily 1", func(a *Availability) *float64 { return &a.Probability }),
	figure("period_seconds", "bernoulli: time from one draw to the next; trace: after which it repeats; null: trace its own length", func(a *Availability) *float64 { return &a.PeriodSeconds }),
	figure("on_seconds", "markov: mean length of a stay", func(a *Availability) *float64 { return &a.OnSeconds }),
	figure("off_seconds", "markov: mean length of an absence", func(a *Availability) *float64 { return &a.OffSeconds }),
	figure("from_hour", "daily: local hour from which a client is there; null: 0", func(a *Availability) *float64 { return &a.FromHour }),
	figure("to_hour", "daily: local hour until which it is; null: 0", func(a *Availability) *float64 { return &a.ToHour }),
	figure("jitter_hours", "daily: by which both may move from day to day; null: 0", func(a *Availability) *float64 { return &a.JitterHours }),
	figure("start_hour", "daily: hour of the day (UTC) at virtual time 0; null: 0", func(a *Availability) *float64 { return &a.StartHour }),
	zonesKey,
	nullText("sessions", "trace: a CSV file of recorded stays (trace,from_second,to_second)", func(a *Availability) *string { return &a.Sessions }),
	optional(flag("spread", "trace: each client starts at a place of its own", func(a *Availability) *bool { return &a.Spread }),
		func(a *Availability) bool { return !a.Spread }, func(a *Availability) { a.Spread = false }),
}

var zonesKey = list("zones", "daily: time zones, [{hours: 1, weight: 2}, ...], hours ahead of UTC; null: the 24 whole hours, equally", func(a *Availability) *[]device.Zone { return &a.Zones },
	func(z *device.Zone, n ast.Node) error { return readRecord(z, n, zoneKeys) },
	func(z *device.Zone) string { return writeRecord(z, zoneKeys) },
	func(z *device.Zone) error { return checkRecord(z, zoneKeys) }, 1000)

var zoneKeys = []keyOf[device.Zone]{
	figure("hours", "ahead of UTC", func(z *device.Zone) *float64 { return &z.Hours }),
	figure("weight", "share of the clients", func(z *device.Zone) *float64 { return &z.Weight }),
}

var dropoutKeys = []keyOf[device.Dropout]{
	real("probability", "of a task that its client leaves in the middle", func(d *device.Dropout) *float64 { return &d.Probability }, limits{hi: 1}),
	flag("when_unavailable", "a client also leaves when its availability ends", func(d *device.Dropout) *bool { return &d.WhenUnavailable }),
}

var slowdownKeys = []keyOf[Slowdown]{
	figure("every_seconds", "mean time from one spell of a client's slowness to the next; null: none", func(s *Slowdown) *float64 { return &s.EverySeconds }),
	figure("for_seconds", "mean length of a spell", func(s *Slowdown) *float64 { return &s.ForSeconds }),
	distKey("factor", "how many times as long a step takes meanwhile: a number or a distribution, at least 1", func(s *Slowdown) *Dist { return &s.Factor }),
	flag("links", "transfers are slowed, too", func(s *Slowdown) *bool { return &s.Links }),
}

// distKeys are a distribution's parameters; package device knows which belong
// to which.
var distKeys = []keyOf[Dist]{
	choice("dist", "law", "distribution", func(d *Dist) *string { return &d.Dist }, distributionNames()...),
	figure("value", "", func(d *Dist) *float64 { return &d.Value }),
	figure("mean", "", func(d *Dist) *float64 { return &d.Mean }),
	figure("median", "", func(d *Dist) *float64 { return &d.Median }),
	figure("std", "", func(d *Dist) *float64 { return &d.Std }),
	figure("sigma", "", func(d *Dist) *float64 { return &d.Sigma }),
	figure("shift", "", func(d *Dist) *float64 { return &d.Shift }),
	figure("scale", "", func(d *Dist) *float64 { return &d.Scale }),
	figure("shape", "", func(d *Dist) *float64 { return &d.Shape }),
	figure("min", "", func(d *Dist) *float64 { return &d.Min }),
	figure("max", "", func(d *Dist) *float64 { return &d.Max }),
	list("values", "", func(d *Dist) *[]float64 { return &d.Values }, readFigure,
		func(v *float64) string { return number(*v) }, func(*float64) error { return nil }, 1<<20),
	figure("at_least", "", func(d *Dist) *float64 { return &d.AtLeast }),
	figure("at_most", "", func(d *Dist) *float64 { return &d.AtMost }),
}

func readFigure(v *float64, n ast.Node) error {
	return real("", "", func(v *float64) *float64 { return v }, limits{}).read(v, n)
}

const distForms = "a number or a distribution, e.g. {dist: lognormal, mean: 20, sigma: 0.5}"

// distKey is a quantity that differs from client to client or task to task: a
// distribution, or a number for a constant one.
func distKey[T any](path, help string, field func(*T) *Dist) keyOf[T] {
	given := func(c *T) bool {
		d := field(c)
		return d.Dist != "" || d.Values != nil
	}
	k := record(path, help, field, given, func(c *T) { *field(c) = Dist{} }, distKeys)
	read, write := k.read, k.write
	k.read = func(c *T, n ast.Node) error {
		switch n.(type) {
		case nil, *ast.NullNode:
			return read(c, n)
		case *ast.MappingNode:
			if err := read(c, n); err != nil {
				return err
			}
			if !given(c) {
				return errors.New("a distribution without its dist (" + distForms + ")")
			}
			return nil
		}
		s, err := scalar(n, distForms)
		if err != nil {
			return err
		}
		v, ok := parseNumber(s)
		if !ok || quoted(n) {
			return fmt.Errorf("%s is not %s", shown(n, s), distForms)
		}
		*field(c) = Dist{Dist: "constant", Value: v}
		return nil
	}
	k.write = func(c *T) string {
		if d := *field(c); d.Dist == "constant" && d.AtLeast == 0 && d.AtMost == 0 {
			return number(d.Value)
		}
		return write(c)
	}
	return k
}

var classKeys = []keyOf[Class]{
	text("name", "name of the class", func(k *Class) *string { return &k.Name }, CheckName),
	figure("weight", "share of the clients, relative to the other classes'; null in all: equal shares", func(k *Class) *float64 { return &k.Weight }),
	distKey("download_mbps", "a client's own download speed: "+distForms, func(k *Class) *Dist { return &k.DownloadMbps }),
	distKey("upload_mbps", "a client's own upload speed", func(k *Class) *Dist { return &k.UploadMbps }),
	distKey("seconds_per_step", "a client's own mean time of a minibatch", func(k *Class) *Dist { return &k.SecondsPerStep }),
	figure("step_cv", "standard deviation of one minibatch's time over its mean", func(k *Class) *float64 { return &k.StepCV }),
	record("vary", "factors on the three that are drawn anew for each task: {download: ..., upload: ..., compute: ...}", func(k *Class) *Vary { return &k.Vary },
		func(k *Class) bool { return k.Vary.Download.Dist+k.Vary.Upload.Dist+k.Vary.Compute.Dist != "" },
		func(k *Class) { k.Vary = Vary{} }, varyKeys),
	linksKey,
	record("slowdown", "as the group of that name, for this class; {}: none", func(k *Class) *Slowdown { return made(&k.Slowdown) },
		func(k *Class) bool { return k.Slowdown != nil }, func(k *Class) { k.Slowdown = nil }, slowdownKeys),
	classAvailabilityKey,
	record("dropout", "as the group of that name, for this class; {}: never", func(k *Class) *device.Dropout { return made(&k.Dropout) },
		func(k *Class) bool { return k.Dropout != nil }, func(k *Class) { k.Dropout = nil }, dropoutKeys),
	wattsKey,
}

// made is what a pointer points to, made where there is nothing.
func made[P any](p **P) *P {
	if *p == nil {
		*p = new(P)
	}
	return *p
}

var varyKeys = []keyOf[Vary]{
	distKey("download", "on the download speed", func(v *Vary) *Dist { return &v.Download }),
	distKey("upload", "on the upload speed", func(v *Vary) *Dist { return &v.Upload }),
	distKey("compute", "on the time of a minibatch", func(v *Vary) *Dist { return &v.Compute }),
}

// short lets a record also be written as one scalar.
func short[T any](k keyOf[T], read func(*T, ast.Node) error, write func(*T) (string, bool)) keyOf[T] {
	long, longer := k.read, k.write
	k.read = func(c *T, n ast.Node) error {
		if _, ok := n.(*ast.MappingNode); ok || isNull(n) {
			return long(c, n)
		}
		return read(c, n)
	}
	k.write = func(c *T) string {
		if s, ok := write(c); ok {
			return s
		}
		return longer(c)
	}
	return k
}

var linksKey = short(
	record("links", "link traces in place of both speeds: a path, or {file: ..., traces: [...]}", func(k *Class) *Links { return &k.Links },
		func(k *Class) bool { return k.Links.File != "" || k.Links.Traces != nil }, func(k *Class) { k.Links = Links{} }, []keyOf[Links]{
			text("file", "path of link traces", func(l *Links) *string { return &l.File }, notEmpty),
			list("traces", "those to use; null: all", func(l *Links) *[]string { return &l.Traces },
				func(s *string, n ast.Node) (err error) { *s, err = scalar(n, "the name of a trace"); return err },
				func(s *string) string { return quote(*s) },
				text("", "", func(s *string) *string { return s }, notEmpty).check, 10_000),
		}),
	func(k *Class, n ast.Node) (err error) {
		k.Links = Links{}
		k.Links.File, err = scalar(n, "a path or {file: ..., traces: [...]}")
		return err
	},
	func(k *Class) (string, bool) { return quote(k.Links.File), k.Links.Traces == nil })

var classAvailabilityKey = short(
	record("availability", "as the group of that name, for this class", func(k *Class) *Availability { return made(&k.Availability) },
		func(k *Class) bool { return k.Availability != nil }, func(k *Class) { k.Availability = nil }, availabilityKeys),
	func(k *Class, n ast.Node) error {
		k.Availability = &Availability{}
		return availabilityKeys[0].read(k.Availability, n)
	},
	func(k *Class) (string, bool) {
		parts := 0
		for _, f := range availabilityKeys {
			if f.unset == nil || !f.unset(k.Availability) {
				parts++
			}
		}
		return quote(k.Availability.Model), parts == 1
	})

var wattsKey = short(
	record("watts", "power drawn in a task: a number, or {download: ..., compute: ..., upload: ...}", func(k *Class) *Watts { return &k.Watts },
		func(k *Class) bool { return k.Watts != Watts{} }, func(k *Class) { k.Watts = Watts{} }, []keyOf[Watts]{
			real("download", "", func(w *Watts) *float64 { return &w.Download }, wattage),
			real("compute", "", func(w *Watts) *float64 { return &w.Compute }, wattage),
			real("upload", "", func(w *Watts) *float64 { return &w.Upload }, wattage),
		}),
	func(k *Class, n ast.Node) error {
		var v float64
		err := real("", "", func(v *float64) *float64 { return v }, wattage).read(&v, n)
		k.Watts = Watts{v, v, v}
		return err
	},
	func(k *Class) (string, bool) {
		return number(k.Watts.Compute), k.Watts.Download == k.Watts.Compute && k.Watts.Upload == k.Watts.Compute
	})

var wattage = limits{hi: 1e6, unit: "W"}

var fleetKey = func() key {
	k := list("fleet", "classes of devices, [{name: phone, weight: 3, ...}, ...]; []: all clients alike", func(c *Config) *[]Class { return &c.Fleet },
		func(k *Class, n ast.Node) error { return readRecord(k, n, classKeys) },
		func(k *Class) string { return writeRecord(k, classKeys) },
		func(k *Class) error { return checkRecord(k, classKeys) }, maxClasses)
	k.write = func(c *Config) string {
		if len(c.Fleet) == 0 {
			return "[]"
		}
		var b strings.Builder
		for i := range c.Fleet {
			b.WriteString("\n  - " + writeRecord(&c.Fleet[i], classKeys))
		}
		return b.String()
	}
	k.unset = nil
	return k
}()

// ClassKeys lists the keys of a class in fleet.
func ClassKeys() []KnownKey {
	list := make([]KnownKey, len(classKeys))
	for i, k := range classKeys {
		list[i] = KnownKey{k.path, k.help, k.words}
	}
	return list
}

// Distributions lists the distributions with their parameters.
func Distributions() []KnownKey {
	return []KnownKey{
		{Key: "constant", Help: "value; a plain number is the same"},
		{Key: "uniform", Help: "min, max"},
		{Key: "normal", Help: "mean, std"},
		{Key: "lognormal", Help: "mean or median, sigma (of the logarithm)"},
		{Key: "shifted_exponential", Help: "mean, shift"},
		{Key: "pareto", Help: "mean or min, shape"},
		{Key: "weibull", Help: "scale, shape"},
		{Key: "empirical", Help: "values: [...], each equally likely"},
	}
}

func distributionNames() []string {
	var list []string
	for _, d := range Distributions() {
		list = append(list, d.Key)
	}
	return list
}

// fitDevices asks package device whether it would take the devices, without
// reading the files they name.
func fitDevices(c Config) *KeyError {
	d, err := c.fleet()
	if err == nil {
		err = d.Check()
	}
	return deviceError(err)
}

// deviceError is an error of package device, which knows the configuration's
// keys, as one of the configuration.
func deviceError(err error) *KeyError {
	var o *registry.OptionError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &o):
		return &KeyError{Problem: err.Error()}
	}
	k := &KeyError{Key: o.Key, Problem: o.Problem}
	group, _, ok := cutLast(o.Key)
	for _, name := range groupKeys(group) {
		if ok && group+"."+name != o.Key {
			k.Others = append(k.Others, group+"."+name)
		}
	}
	return k
}

func cutLast(key string) (group, last string, ok bool) {
	i := strings.LastIndexByte(key, '.')
	if i < 0 {
		return "", key, false
	}
	return key[:i], key[i+1:], true
}
