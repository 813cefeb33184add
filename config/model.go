package config

import (
	"errors"
	"fmt"

	"fedpace/data/federated"
	"fedpace/learn"
)

// TaskModel is the value of Config.Model that stands for the task's own model, which
// [Config.NewModel] makes. It has no layers of its own.
type TaskModel struct{}

func init() { learn.Models.Register("task", "the task's own", TaskModel{}) }

// errTaskModel is the error of making a model from [TaskModel] without a configuration.
var errTaskModel = errors.New("only a configuration has a task, whose model this is")

// Model always returns an error, because the model depends on the task, which only a configuration
// has. [Config.NewModel] makes it.
func (TaskModel) Model(learn.Samples) (learn.Model, error) { return nil, errTaskModel }

// UsesTaskModel reports whether the run trains the task's own model: the configuration names no
// other, and no trainer brings one.
func (c *Config) UsesTaskModel() bool { return !c.setsModel() && !c.External() }

// setsModel reports whether the configuration names a model, by layers or by a kind, in place of
// the task's own.
func (c *Config) setsModel() bool { return c.Model != learn.Architecture(TaskModel{}) }

// NewModel makes the model that the configuration describes. samples tells the shape of the data:
// the sizes of the input and the number of classes, where the configuration leaves them open. An
// error is returned if no model of that kind fits the samples.
func (c *Config) NewModel(samples learn.Samples) (m learn.Model, err error) {
	switch p, paper := c.Task.Paper(); {
	case !c.UsesTaskModel():
		// Made data has the shape of the task's real data, which is known even where nothing is
		// trained and so no data is made.
		if c.IsSynthetic() {
			samples = madeSamples[c.Task]
		}
		m, err = c.Model.Model(samples)
	// The paper's models have fixed sizes, which the data must fit.
	case paper:
		return learn.Parse(p.Architecture)
	case c.Task == TaskQuadratic:
		m, err = learn.Quadratic{Dimension: c.Quadratic.Dimension}.Model(samples)
	// This is task logistic, whose sizes are those of the data if it is read.
	default:
		if c.IsSynthetic() {
			samples.Features = c.Logistic.Features
			samples.Classes = c.Logistic.Classes
		}
		m, err = learn.Logistic{Features: samples.Features, Classes: samples.Classes, Mu: c.Logistic.Mu}.Model(samples)
	}
	if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	return m, nil
}

// madeSamples is the shape of made samples for each task that trains a network.
var madeSamples = map[Task]learn.Samples{
	TaskFEMNIST:     federated.FEMNISTInfo.Samples,
	TaskCIFAR100:    federated.CIFARInfo.Samples,
	TaskSent140:     federated.Sent140Info.Samples,
	TaskShakespeare: federated.ShakespeareInfo.Samples,
}

// Data says where the samples come from and how they are read. Its zero value names no data.
type Data struct {
	Path   string           `key:"path" is:"short,path,null" help:"path of the data"`
	Reader federated.Reader `key:"reader" is:"flat,null" help:"null: the reader that recognises it"`
}

// Mapping returns the text of the reader that maps the columns of a user's own table to features
// and labels, as the configuration writes it. It is empty for data that is no table.
func (d Data) Mapping() (string, error) {
	if d.Reader == nil || federated.Readers.NameOf(d.Reader) != "table" {
		return "", nil
	}
	text, err := federated.Readers.Encode(d.Reader)
	if err != nil {
		return "", fmt.Errorf("data: %w", err)
	}
	return text, nil
}

// SyntheticData is the value of Data.Path for samples that are made, not read.
const SyntheticData = "synthetic"

// String returns the path of the data, or a description of its reader where there is no path.
func (d Data) String() string {
	if d.Path == "" && d.Reader != nil {
		return federated.Readers.Text(d.Reader)
	}
	return d.Path
}

// IsSynthetic reports whether the samples are made by this program from a seed, rather than read
// from a data set.
func (c *Config) IsSynthetic() bool { return c.Data.Path == SyntheticData && c.Data.Reader == nil }
