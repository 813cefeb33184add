package study

import (
	"encoding/csv"
	"io"
	"path/filepath"
	"slices"
	"strconv"

	"fedpace/experiment/config"
	"fedpace/experiment/folder"
	"fedpace/internal/atomicfile"
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
	found, err := config.Load(filepath.Join(c.Config.Out, folder.ConfigFile), nil)
	if err != nil {
		return Origin{}, err
	}
	p, err := ProvenanceOf(found, c.Summary)
	return Origin{c.Schedule, found.Seed, p}, err
}

// WriteRuns writes one row for each run, with where it comes from and the quantities of the
// table; a value that does not exist is an empty cell. A run that diverged has none.
func (t SweepTable) WriteRuns(path string) error {
	header := append(t.header(), "seed", "version", "configuration", "data_digest", "kernel", "diverged")
	for _, q := range t.quantities {
		header = append(header, q.name)
	}
	records := [][]string{header}
	for i := range t.cells {
		c := &t.cells[i]
		o, err := c.Origin()
		if err != nil {
			return err
		}
		record := append(slices.Clone(c.Values), o.Schedule, strconv.FormatUint(o.Seed, 10), o.Version, o.Configuration, o.DataDigest, o.Kernel, strconv.FormatBool(c.Diverged != ""))
		for _, q := range t.quantities {
			value := ""
			if c.Diverged == "" {
				value = decimal(q.of(c))
			}
			record = append(record, value)
		}
		records = append(records, record)
	}
	return atomicfile.Write(path, func(f io.Writer) error { return csv.NewWriter(f).WriteAll(records) })
}
