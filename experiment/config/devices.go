package config

import (
	"fmt"
	"reflect"
	"strings"

	"fedpace/actors/device"
	"fedpace/internal/registry"
)

// Dist is a distribution by its keys in the file.
type Dist struct {
	Dist                                                           string
	Value, Mean, Median, Std, Sigma, Shift, Scale, Shape, Min, Max float64
	Values                                                         []float64
	AtLeast, AtMost                                                float64
}

// Slowdown is [device.Spells] by its keys in the file.
type Slowdown struct {
	EverySeconds, ForSeconds float64
	Factor                   Dist
	Links                    bool
}

// Vary is [device.Vary] by its keys in the file.
type Vary struct{ Download, Upload, Compute Dist }

// NewFleet makes the clients' devices and reads the files that the configuration
// names. An error is a *[KeyError].
func (c Config) NewFleet() (*device.Fleet, error) {
	d, err := c.fleet()
	if err != nil {
		return nil, deviceError(err)
	}
	f, err := device.NewFleet(d, c.Seed)
	if err != nil {
		return nil, deviceError(err)
	}
	return f, nil
}

// fleet is the fleet as package device takes it.
func (c Config) fleet() (device.Config, error) {
	d := device.Config{
		Network: device.Network{DownloadMbps: c.Network.DownloadMbps, UploadMbps: c.Network.UploadMbps, Links: device.Links{File: c.Network.Links}},
		Compute: device.Compute{SecondsPerStep: c.Compute.SecondsPerStep, Std: c.Compute.Std, Measured: c.Compute.Measured, Reference: c.Compute.Reference},
		Dropout: c.Dropout,
	}
	var err error
	if d.Slowdown, err = c.Slowdown.entry(); err != nil {
		return d, registry.Below("slowdown", err)
	}
	if d.Availability, err = c.Availability.entry(); err != nil {
		return d, registry.Below("availability", err)
	}
	for i := range c.Fleet {
		k, err := c.Fleet[i].device()
		if err != nil {
			return d, registry.Below(fmt.Sprintf("fleet[%d]", i), err)
		}
		d.Fleet = append(d.Fleet, k)
	}
	return d, nil
}

// device is a class as package device takes it.
func (k *Class) device() (out device.Class, err error) {
	out = device.Class{
		Name: k.Name, Weight: k.Weight, StepCV: k.StepCV, Links: device.Links{File: k.Links.File, Traces: k.Links.Traces}, Dropout: k.Dropout,
	}
	for _, d := range []struct {
		key  string
		from *Dist
		to   *device.Distribution
	}{
		{"download_mbps", &k.DownloadMbps, &out.DownloadMbps}, {"upload_mbps", &k.UploadMbps, &out.UploadMbps}, {"seconds_per_step", &k.SecondsPerStep, &out.SecondsPerStep},
		{"vary.download", &k.Vary.Download, &out.Vary.Download}, {"vary.upload", &k.Vary.Upload, &out.Vary.Upload}, {"vary.compute", &k.Vary.Compute, &out.Vary.Compute},
	} {
		if *d.to, err = d.from.entry(); err != nil {
			return out, registry.Below(d.key, err)
		}
	}
	if k.Slowdown != nil {
		if out.Slowdown, err = k.Slowdown.entry(); err != nil {
			return out, registry.Below("slowdown", err)
		}
	}
	if k.Availability != nil {
		if out.Availability, err = k.Availability.entry(); err != nil {
			return out, registry.Below("availability", err)
		}
	}
	return out, nil
}

func (d *Dist) entry() (device.Distribution, error) {
	if d.Dist == "" {
		return nil, nil
	}
	e, err := filled(registry.For(reflect.TypeFor[device.Distribution]()), d.Dist, *d)
	if err != nil {
		return nil, err
	}
	return e.(device.Distribution), nil
}

func (s *Slowdown) entry() (device.Slowdown, error) {
	factor, err := s.Factor.entry()
	return device.Spells{EverySeconds: s.EverySeconds, ForSeconds: s.ForSeconds, Factor: factor, Links: s.Links}, registry.Below("factor", err)
}

func (a *Availability) entry() (device.Availability, error) {
	from := *a
	if a.Model == Daily && a.Probability == 0 {
		from.Probability = 1
	}
	e, err := filled(registry.For(reflect.TypeFor[device.Availability]()), a.Model, from)
	if err != nil {
		return nil, err
	}
	return e.(device.Availability), nil
}

// filled is the entry of a name with the options that flat, a struct with their
// fields, holds.
func filled(table *registry.Point, name string, flat any) (any, error) {
	entry, _, _ := table.Entry(name)
	out := reflect.New(reflect.TypeOf(entry)).Elem()
	from := reflect.ValueOf(flat)
	takes := map[string]bool{}
	var keys []string
	for _, o := range registry.Options(out.Type()) {
		field := out.Type().FieldByIndex(o.Index).Name
		out.FieldByIndex(o.Index).Set(from.FieldByName(field))
		takes[field] = true
		keys = append(keys, o.Key)
	}
	for i := range from.NumField() {
		if f := from.Type().Field(i); f.Type.Kind() != reflect.String && !takes[f.Name] && !from.Field(i).IsZero() {
			return nil, registry.Errorf(snake(f.Name), "does not belong to %s %s, which has %s", table.Word(), name, strings.Join(keys, ", "))
		}
	}
	return out.Interface(), nil
}

// snake is a field's key.
func snake(field string) string {
	var b strings.Builder
	for i, r := range field {
		if r >= 'A' && r <= 'Z' {
			if i > 0 {
				b.WriteByte('_')
			}
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}

// EverAbsent tells whether any client is ever not there.
func (c *Config) EverAbsent() bool {
	if c.Availability.Model != Always && len(c.Fleet) == 0 {
		return true
	}
	for _, k := range c.Fleet {
		if k.Availability == nil && c.Availability.Model != Always || k.Availability != nil && k.Availability.Model != Always {
			return true
		}
	}
	return false
}
