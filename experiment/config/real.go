package config

import (
	"fmt"
	"slices"

	"github.com/goccy/go-yaml/ast"

	"fedpace/internal/names"
)

// Devices says how real devices take part in a run.
type Devices struct {
	Include         string // EveryRound or Sampled
	Names           []string
	LivenessSeconds float64
	TaskSeconds     float64
	NormLimit       float64
	Link            string // MeasuredLink or ModelledLink
}

// The ways to include devices, and whose link counts.
const (
	EveryRound = "every_round"
	Sampled    = "sampled"

	MeasuredLink = "measured"
	ModelledLink = "modelled" // by network.download_mbps and upload_mbps
)

var deviceKeys = []key{
	list("devices.names", "real devices that take part, by the ids of fedpace actor; []: none", func(c *Config) *[]string { return &c.Devices.Names },
		func(s *string, n ast.Node) (err error) { *s, err = scalar(n, "a device's id"); return err },
		func(s *string) string { return quote(*s) },
		text("", "", func(s *string) *string { return s }, names.CheckDevice).check, names.MaxDevices),
	choice("devices.include", "when they take part: beside each cohort, or drawn with the others", "way to include devices", func(c *Config) *string { return &c.Devices.Include }, EveryRound, Sampled),
	real("devices.liveness_seconds", "wall time of silence after which a device is lost; a run waits that long for its devices to join", func(c *Config) *float64 { return &c.Devices.LivenessSeconds }, limits{lo: 0.1, hi: 1e6, unit: "seconds"}),
	real("devices.task_seconds", "wall time after which a device that is still at one task is lost, however alive it is", func(c *Config) *float64 { return &c.Devices.TaskSeconds }, limits{lo: 0.1, hi: 1e6, unit: "seconds"}),
	real("devices.norm_limit", "largest Euclidean norm of a device's update; 0: none", func(c *Config) *float64 { return &c.Devices.NormLimit }, limits{hi: 1e12}),
	choice("devices.link", "whose time a device's transfers take: as measured, or modelled by network.download_mbps and upload_mbps", "link", func(c *Config) *string { return &c.Devices.Link }, MeasuredLink, ModelledLink),
}

// fitRealDevices refuses what devices do not take part in.
func fitRealDevices(c Config) *KeyError {
	d := c.Devices
	if len(d.Names) == 0 {
		return nil
	}
	sorted := slices.Sorted(slices.Values(d.Names))
	for i, name := range sorted {
		if i > 0 && name == sorted[i-1] {
			return &KeyError{Key: "devices.names", Problem: fmt.Sprintf("%q is named twice", name)}
		}
	}
	fail := func(key, format string, args ...any) *KeyError {
		return &KeyError{Key: key, Others: []string{"devices.names"}, Problem: fmt.Sprintf(format, args...)}
	}
	switch {
	case !c.Train:
		return fail("train", "false is for simulated clients alone: devices train (set devices.names to [])")
	case c.Select.Rule == PowerOfChoice:
		return fail("select.rule", "%q asks for losses ahead, which devices do not tell (use uniform, size or fit)", c.Select.Rule)
	case c.keepsClientState():
		return fail("aggregate.algorithm", "%q keeps control variates, which devices do not send (use another)", c.Aggregate.Algorithm)
	case d.Include == Sampled && c.SelectsBySize():
		return fail("devices.include", "%q draws devices with the others, and select draws by size, which devices do not have (use %s)", d.Include, EveryRound)
	}
	return nil
}
