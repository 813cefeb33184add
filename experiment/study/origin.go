package study

import (
	"fedpace/experiment/config"
	"fedpace/experiment/folder"
)

// Provenance names what the results of a run follow from, to the bit.
type Provenance struct {
	Version       string `csv:"version" json:"version"`             // of the program, with its commit
	Configuration string `csv:"configuration" json:"configuration"` // hex SHA-256, see Identity
	DataDigest    string `csv:"data_digest" json:"data_digest"`     // of samples and split; empty: none were read
	Kernel        string `csv:"kernel" json:"kernel"`               // the class of kernels that trained; empty: nothing was trained
}

// ProvenanceOf is that of a run with this configuration, complete as the run's folder has it,
// and this summary; without one the configuration's alone.
func ProvenanceOf(c config.Config, s folder.Summary) (p Provenance, err error) {
	p.Version, p.DataDigest, p.Kernel = s.Version, s.DataDigest, s.Kernel
	p.Configuration, err = Identity(c)
	return p, err
}

// Origin names one run of a study.
type Origin struct {
	Schedule string `csv:"schedule" json:"schedule"`
	Seed     uint64 `csv:"seed" json:"seed"`
	Provenance
}

// Origin is that of a cell that was played.
func (c *Cell) Origin() (Origin, error) {
	found, err := folder.Open(c.Config.Out)
	if err != nil {
		return Origin{}, err
	}
	p, err := ProvenanceOf(found.Config, c.Summary)
	return Origin{c.Schedule, found.Config.Seed, p}, err
}
