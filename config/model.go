package config

import (
	"errors"
	"fmt"

	"fedpace/data/federated"
	"fedpace/learn"
)

// TaskModel stands for the task's own model, which [Config.NewModel] makes.
type TaskModel struct{}

func init() { learn.Models.Register("task", "the task's own", TaskModel{}) }

var errTaskModel = errors.New("only a configuration has a task, whose model this is")

// Model returns an error: TaskModel has no sizes, and messages name the task's model itself.
func (TaskModel) Model(learn.Samples) (learn.Model, error) { return nil, errTaskModel }

// UsesTaskModel reports whether the model is the task's own, and no trainer's.
func (c *Config) UsesTaskModel() bool { return !c.setsModel() && !c.External() }

// setsModel reports whether the configuration names a model in place of the task's.
func (c *Config) setsModel() bool { return c.Model != learn.Architecture(TaskModel{}) }

// NewModel makes the model. The samples give the sizes that the configuration leaves
// open.
func (c *Config) NewModel(samples learn.Samples) (m learn.Model, err error) {
	switch p, paper := c.Task.Paper(); {
	case !c.UsesTaskModel():
		if c.IsSynthetic() { // which is not made where nothing is trained
			samples = madeSamples[c.Task]
		}
		m, err = c.Model.Model(samples)
	case paper:
		return learn.Parse(p.Architecture)
	case c.Task == TaskQuadratic:
		m, err = learn.Quadratic{Dimension: c.Quadratic.Dimension}.Model(samples)
	default: // logistic, whose sizes are those of data that is read
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

// madeSamples are those of made data.
var madeSamples = map[Task]learn.Samples{
	TaskFEMNIST:     federated.FEMNISTInfo.Samples,
	TaskCIFAR100:    federated.CIFARInfo.Samples,
	TaskSent140:     federated.Sent140Info.Samples,
	TaskShakespeare: federated.ShakespeareInfo.Samples,
}

// Data says where the samples are from.
type Data struct {
	Path   string           `key:"path" is:"short,path,null" help:"path of the data; null: none is needed"`
	Reader federated.Reader `key:"reader" is:"flat,null" help:"how the data set is read; null: by the reader that recognises it"`
}

// Mapping is what the columns of a table mean, for those who have tables of their own; "" for
// other data.
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

// SyntheticData is the path of made data.
const SyntheticData = "synthetic"

// String is the path of the data, or how they are read where there is none.
func (d Data) String() string {
	if d.Path == "" && d.Reader != nil {
		return federated.Readers.Text(d.Reader)
	}
	return d.Path
}

// IsSynthetic reports whether the data is made rather than read.
func (c *Config) IsSynthetic() bool { return c.Data.Path == SyntheticData && c.Data.Reader == nil }
