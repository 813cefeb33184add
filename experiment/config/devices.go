package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"fedpace/actors/device"
)

// deviceFiles gives what the files hold that a configuration names.
type deviceFiles interface {
	links(path string) (*device.Links, error)
	sessions(path string, periodSeconds float64) (*device.Sessions, error)
	measured(path string) (device.Measurements, error)
}

// ReadDevices is the fleet as package device takes it, with what the files hold
// that the configuration names. An error is a *[KeyError].
func (c Config) ReadDevices() (device.Config, error) { return c.devices(&readFiles{}) }

// DeviceFiles lists the paths of the files that ReadDevices reads, each once.
func (c Config) DeviceFiles() []string {
	paths := []string{c.Availability.Sessions, c.Network.Links, c.Compute.Measured}
	for _, k := range c.Fleet {
		if k.Availability != nil {
			paths = append(paths, k.Availability.Sessions)
		}
		paths = append(paths, k.Links.File)
	}
	var list []string
	for _, path := range paths {
		if path != "" && !slices.Contains(list, path) {
			list = append(list, path)
		}
	}
	return list
}

// devices is the fleet as package device takes it. Errors in files are
// *[KeyError].
func (c Config) devices(files deviceFiles) (d device.Config, err error) {
	d = device.Config{
		DownloadMbps: c.Network.DownloadMbps, UploadMbps: c.Network.UploadMbps,
		SecondsPerStep: c.Compute.SecondsPerStep, StepStd: c.Compute.Std,
		Slowdown: c.Slowdown, Dropout: c.Dropout,
	}
	if d.Availability, err = c.Availability.device(files, "availability"); err != nil {
		return d, err
	}
	var links *device.Links
	if c.Network.Links != "" {
		if links, err = files.links(c.Network.Links); err != nil {
			return d, &KeyError{Key: "network.links", Problem: err.Error()}
		}
	}
	var steps device.Dist
	if c.Compute.Measured != "" {
		measured, err := files.measured(c.Compute.Measured)
		if err != nil {
			return d, &KeyError{Key: "compute.measured", Problem: err.Error()}
		}
		if steps, err = measured.StepTimes(c.Compute.SecondsPerStep, referenceIn(files, c.Compute.Reference)); err != nil {
			return d, &KeyError{Key: "compute.reference", Problem: inFile(c.Compute.Measured, err).Error()}
		}
	}
	fleet := c.Fleet
	if len(fleet) == 0 && (links != nil || c.Compute.Measured != "") {
		fleet = []Class{{Name: "all"}}
	}
	for i := range fleet {
		k, err := fleet[i].device(files, fmt.Sprintf("fleet[%d]", i))
		if err != nil {
			return d, err
		}
		if k.Links == nil && k.DownloadMbps.Dist == "" && k.UploadMbps.Dist == "" {
			k.Links = links
		}
		if k.SecondsPerStep.Dist == "" {
			k.SecondsPerStep = steps
		}
		d.Classes = append(d.Classes, k)
	}
	return d, nil
}

// device is a class as package device takes it; at is its place.
func (k *Class) device(files deviceFiles, at string) (out device.Class, err error) {
	out = device.Class{
		Name: k.Name, Weight: k.Weight, DownloadMbps: k.DownloadMbps, UploadMbps: k.UploadMbps,
		SecondsPerStep: k.SecondsPerStep, StepCV: k.StepCV, Vary: k.Vary, Slowdown: k.Slowdown, Dropout: k.Dropout,
	}
	if k.Availability != nil {
		a, err := k.Availability.device(files, at+".availability")
		if err != nil {
			return out, err
		}
		out.Availability = &a
	}
	if k.Links.File == "" {
		return out, nil
	}
	if out.Links, err = files.links(k.Links.File); err == nil && len(k.Links.Traces) > 0 {
		if _, dry := files.(standIns); !dry {
			if out.Links, err = out.Links.Select(k.Links.Traces...); err != nil {
				err = inFile(k.Links.File, err)
			}
		}
	}
	if err != nil {
		return out, &KeyError{Key: at + ".links", Problem: err.Error()}
	}
	return out, nil
}

// device is the availability as package device takes it.
func (a *Availability) device(files deviceFiles, at string) (out device.Availability, err error) {
	out = device.Availability{
		Model: a.Model, Probability: a.Probability, PeriodSeconds: a.PeriodSeconds, OnSeconds: a.OnSeconds, OffSeconds: a.OffSeconds,
		FromHour: a.FromHour, ToHour: a.ToHour, JitterHours: a.JitterHours, StartHour: a.StartHour, Zones: a.Zones, Spread: a.Spread,
	}
	switch a.Model {
	case Daily:
		if out.Probability == 0 {
			out.Probability = 1
		}
	case Trace:
		out.PeriodSeconds = 0 // it is the file's
	}
	if a.Sessions == "" {
		return out, nil
	}
	if out.Sessions, err = files.sessions(a.Sessions, a.PeriodSeconds); err != nil {
		return out, &KeyError{Key: at + ".sessions", Problem: err.Error()}
	}
	return out, nil
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

// inFile puts a file's name before an error of package device.
func inFile(path string, err error) error {
	return errors.New(path + ": " + strings.TrimPrefix(err.Error(), "device: "))
}

// readFiles reads each file once.
type readFiles struct {
	traces map[string]*device.Links
	stays  map[string]*device.Sessions
}

func (r *readFiles) links(path string) (l *device.Links, err error) {
	if l = r.traces[path]; l != nil {
		return l, nil
	}
	err = withFile(path, func(f io.Reader) error { l, err = device.ReadLinks(f); return err })
	if err == nil {
		if r.traces == nil {
			r.traces = map[string]*device.Links{}
		}
		r.traces[path] = l
	}
	return l, err
}

func (r *readFiles) sessions(path string, period float64) (s *device.Sessions, err error) {
	name := fmt.Sprintf("%s %g", path, period)
	if s = r.stays[name]; s != nil {
		return s, nil
	}
	err = withFile(path, func(f io.Reader) error { s, err = device.ReadSessions(f, period); return err })
	if err == nil {
		if r.stays == nil {
			r.stays = map[string]*device.Sessions{}
		}
		r.stays[name] = s
	}
	return s, err
}

func (r *readFiles) measured(path string) (m device.Measurements, err error) {
	err = withFile(path, func(f io.Reader) error { m, err = device.ReadMeasurements(f); return err })
	return m, err
}

// withFile reads a file; errors name it.
func withFile(path string, read func(io.Reader) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() // read only
	if err := read(f); err != nil {
		return inFile(path, err)
	}
	return nil
}

// standIns stand for files that are not read, where only what is written in the
// configuration itself is checked.
type standIns struct{}

func (standIns) links(string) (*device.Links, error) {
	return device.NewLinks([]device.LinkTrace{{Download: []uint32{1}, Upload: []uint32{1}}})
}

func (standIns) sessions(string, float64) (*device.Sessions, error) {
	return device.NewSessions([][]device.Session{{{From: 0, To: 1}}}, 2)
}

func (standIns) measured(string) (device.Measurements, error) {
	return device.Measurements{{Device: "", Milliseconds: 1}}, nil
}

// referenceIn is the name of the reference device; the stand-in has none.
func referenceIn(files deviceFiles, name string) string {
	if _, dry := files.(standIns); dry {
		return ""
	}
	return name
}
