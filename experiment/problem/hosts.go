package problem

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"fedpace/actors/external"
	"fedpace/bus"
	"fedpace/config"
	"fedpace/data"
	"fedpace/data/federated"
	"fedpace/experiment/folder"
	"fedpace/experiment/identity"
	"fedpace/learn"
)

// Info returns what hosts in other processes are told of the run: its configuration, and the
// digests of all files that they must have alike. version is that of this program.
func (p *Problem) Info(version string) (*bus.RunInfo, error) {
	hosts := p.Config.ForHosts()
	info := &bus.RunInfo{
		Version:       version,
		Protocol:      bus.HostProtocol,
		Configuration: string(hosts.YAML()),
		Kernel:        p.Kernel,
	}
	// Hosts of a run that is only timed need to know nothing about learning.
	if p.Config.Train {
		info.Spec = p.Learning().Spec()
	}
	// The start model is left out, because hosts do not read it.
	return info, addFiles(info, &hosts)
}

// AppInfo returns what hosts in other processes are told of a run that plays the Flower app of configuration c, with
// the versions of the libraries that they must have alike. version is that of this program.
func AppInfo(c *config.Config, version string, libraries []string) (*bus.RunInfo, error) {
	hosts := c.ForHosts()
	info := &bus.RunInfo{
		Version:       version,
		Protocol:      bus.HostProtocol,
		Configuration: string(hosts.YAML()),
		Libraries:     libraries,
	}
	hosts.Flower.App = c.Flower.App
	return info, addFiles(info, &hosts)
}

// addFiles tells in info the digests of the files that configuration c names.
func addFiles(info *bus.RunInfo, c *config.Config) error {
	files, err := identity.Files(c)
	if err != nil {
		return err
	}
	// Digests are in hexadecimal in a run's records, and in bytes on the bus.
	for _, f := range files {
		digest, err := hex.DecodeString(f.SHA256)
		if err != nil {
			return err
		}
		info.Files = append(info.Files, &bus.File{Path: f.Path, Digest: digest})
	}
	return nil
}

// checkFiles compares the files that a run's configuration names, as they are on this machine,
// with those of the coordinator's machine. It returns an error that names the first that
// differs.
func checkFiles(c *config.Config, coordinators []*bus.File) error {
	files, err := identity.Files(c)
	// A missing file is told by its path alone, without the key.
	if missing := (*fs.PathError)(nil); errors.As(err, &missing) && errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s, which it is configured by, is not on this machine", missing.Path)
	}
	if err != nil {
		return err
	}
	// The bus has paths and no keys. The paths are as in the run's configuration, on both machines.
	run := identity.Identity{Config: *c}
	for _, f := range coordinators {
		run.Files = append(run.Files, folder.InputFile{
			Key:    f.Path,
			Path:   f.Path,
			SHA256: hex.EncodeToString(f.Digest),
		})
	}
	here := identity.Identity{Config: *c}
	for _, f := range files {
		here.Files = append(here.Files, folder.InputFile{Key: f.Path, Path: f.Path, SHA256: f.SHA256})
	}
	d := run.Difference(&here)
	switch {
	case d == nil:
		return nil
	case d.Changes[0].HasNone:
		return fmt.Errorf("%s, which it is configured by, is not on this machine", d.Changes[0].Path)
	}
	return fmt.Errorf("%s, which it is configured by, is another file on this machine", d.Changes[0].Path)
}

// AppForHost returns the configuration of a run that plays a Flower app, as this machine plays its clients; nil if
// the run plays none. An error says what of the app this machine lacks, or has otherwise.
func AppForHost(info *bus.RunInfo, machine Host) (*config.Config, error) {
	c, err := config.Parse("configuration", []byte(info.Configuration))
	if err != nil {
		return nil, fmt.Errorf("its configuration is not one for this version, %s: %w", info.Version, err)
	}
	if !c.PlaysFlower() {
		return nil, nil
	}
	if machine.App == "" {
		return nil, errors.New("it plays a Flower app, and this host has none: give the folder of the same app (--app)")
	}
	c.Flower.App = machine.App
	c.Flower.Python = machine.Python
	return &c, checkFiles(&c, info.Files)
}

// CheckLibraries returns an error that names the first library of an app that this machine has in another version than
// the coordinator, both as "numpy 2.4.6". Libraries that only one of them has loaded are left out.
func CheckLibraries(coordinators, here []string) error {
	for _, mine := range here {
		name, version, _ := strings.Cut(mine, " ")
		for _, theirs := range coordinators {
			other, wanted, _ := strings.Cut(theirs, " ")
			if other == name && wanted != version {
				return fmt.Errorf(
					"this host has %s %s, the run's is %s: other versions may give other bits",
					name,
					version,
					wanted,
				)
			}
		}
	}
	return nil
}

// Host is what a machine has that works for others' runs.
type Host struct {
	// Data is the path of the data on this machine; if it is empty, they are where the run has
	// them.
	Data string
	// Trainer is the command of the trainer; if it is empty, there is none.
	Trainer string
	// App is the folder of a Flower app; if it is empty, there is none. Python is the command of a Python for it.
	App, Python string
	// Notice takes lines about the trainer; it may be nil.
	Notice func(string)
}

// ForHost returns the problem of a run that another process coordinates, for a host to work on: the
// fleet and, if this machine has all that training needs, the learning problem. Otherwise lacks
// says what is missing. info is what the coordinator tells, and machine is what this machine has.
// Close the problem after use.
func ForHost(ctx context.Context, info *bus.RunInfo, machine Host) (p *Problem, lacks, err error) {
	c, err := config.Parse("configuration", []byte(info.Configuration))
	if err != nil {
		return nil, nil, fmt.Errorf("its configuration is not one for this version, %s: %w", info.Version, err)
	}
	if err := checkFiles(&c, info.Files); err != nil {
		return nil, nil, err
	}
	p = newProblem(c, machine.Notice)
	// Every host has the fleet, because a task's duration follows from it alone.
	p.Fleet, err = c.NewFleet()
	if err != nil {
		return nil, nil, err
	}
	if c.Secure.On {
		if err := p.settleSecure(); err != nil {
			return nil, nil, err
		}
	}
	if c.Train {
		// A host that lacks what training needs keeps the fleet, and still answers tasks.
		lacks = p.prepareTraining(ctx, info, machine)
		if lacks != nil {
			err = p.Close()
		}
	}
	return p, lacks, err
}

// prepareTraining prepares what trains on a host: trainer, data and model, which must be those of
// the run in info. Its error says what this machine lacks; the host then answers tasks without
// training.
func (p *Problem) prepareTraining(ctx context.Context, info *bus.RunInfo, machine Host) (err error) {
	c := &p.Config
	// All hosts train in the coordinator's class of arithmetic, because other classes give other
	// bits.
	p.Kernel = info.Kernel
	if c.External() {
		c.Trainer.Command = machine.Trainer
		// The comparison with no model gives the error that says which trainer is missing.
		if machine.Trainer == "" {
			return external.CompareModels(info.Spec.GetModel(), "")
		}
	}
	if !c.External() {
		p.Arithmetic, err = learn.SelectKernel(p.Kernel)
		if err != nil {
			return fmt.Errorf(
				"the run's kernel class is not this machine's: %w; every machine trains runs with kernel: go",
				err,
			)
		}
	}
	if machine.Data != "" && !c.IsSynthetic() && !c.UsesTrainerData() {
		c.Data.Path = machine.Data
		// Prepared data were made with the run's mapping of columns, which their digest proves.
		if data.IsPrepared(machine.Data) {
			c.Data.Reader = nil
		}
	}
	if err := p.openData(ctx, nil); err != nil {
		return err
	}
	// Updates on other samples would change the result without any error.
	run := identity.Identity{Config: *c, Data: info.Spec.GetDataDigest()}
	here := identity.Identity{Config: *c, Data: p.Set.Info().Digest}
	if run.Difference(&here) != nil {
		name := c.Data.String()
		if c.IsSynthetic() {
			name = "this version's synthetic set"
		}
		return fmt.Errorf(
			"%s holds other data than the run's (digest %.12s, the run's is %.12s)",
			name,
			here.Data,
			run.Data,
		)
	}
	if err := p.makeModel(ctx); err != nil {
		return err
	}
	mine := p.Learning().Spec()
	// Two trainers may name one model and still measure or calculate differently.
	if p.Trainer != nil {
		if info.Spec.GetModel() == mine.Model && !slices.Equal(info.Spec.GetMetrics(), mine.Metrics) {
			return fmt.Errorf("the run's trainer measures %q, this one %q", info.Spec.GetMetrics(), mine.Metrics)
		}
		run.Trainer = info.Spec.GetModel()
		run.Kernel = info.Kernel
		here.Trainer = mine.Model
		here.Kernel = p.Trainer.Class
		if d := run.Difference(&here); d != nil {
			return d
		}
	}
	// The last comparison catches all that the more precise messages above do not.
	if !mine.Equal(info.Spec) {
		return fmt.Errorf("it learns %+v, the run %+v", mine, info.Spec)
	}
	return nil
}

// Welcome returns what real devices are told of the data before their first task: how made data are
// made, or what the columns and classes of their own data must mean. A schema that is too large for
// the message is an error.
func (p *Data) Welcome() (*bus.Welcome, error) {
	c := &p.Config
	w := &bus.Welcome{Task: string(c.Task), Heterogeneity: c.Synthetic.Heterogeneity, DataSeed: c.DataSeed()}
	// Without data of the coordinator there is no schema that devices must follow.
	if p.Set == nil {
		return w, nil
	}
	s := p.Set.Info().Schema
	// A schema is sent only if it says something that a device has to follow.
	meansSomething := s.Labels != nil || s.Columns != nil || s.Alphabet != nil
	isScaled := s.Mean != nil || s.TargetMean != nil
	if meansSomething || isScaled {
		w.Schema = &bus.Schema{
			Labels:    s.Labels,
			Columns:   s.Columns,
			Mean:      federated.Convert[float32](s.Mean),
			Deviation: federated.Convert[float32](s.Deviation),
			Alphabet:  s.Alphabet,

			TargetMean:      federated.Convert[float32](s.TargetMean),
			TargetDeviation: federated.Convert[float32](s.TargetDeviation),
		}
		// The message that welcomes a device has a bounded size.
		if n := proto.Size(w.Schema); n > bus.MaxSchema {
			return nil, fmt.Errorf("data: the names of the classes and features of %s take %d bytes, and devices "+
				"are told at most %d (set devices.names to [])", c.Data, n, bus.MaxSchema)
		}
	}
	var err error
	w.Mapping, err = c.Data.Mapping()
	return w, err
}
