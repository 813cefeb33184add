package run

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"fedpace/config"
	"fedpace/experiment/checkpoint"
	"fedpace/experiment/folder"
	"fedpace/internal/regular"
	"fedpace/metrics/eventlog"
)

// Fork makes the folder of a run that goes on from the newest checkpoint of another one, after which
// round it returns. Up to there the two must agree: c differs from the other's configuration in its
// schedule, and in what is inert.
func Fork(from string, c config.Config) (round int, err error) {
	var k checkpoint.Checkpoint
	if err := folder.ReadCheckpoint(from, folder.CheckpointFile, k.Read); err != nil {
		return 0, err
	}
	found, err := config.Parse("configuration", []byte(k.Head.Config)) // complete, with what the data say
	if err != nil {
		return 0, err
	}
	found.Name = c.Name
	found.Out = c.Out
	found.Schedule = c.Schedule
	results, err := folder.CreateResults(c.Out, found, false)
	if err != nil {
		return 0, err
	}
	for _, d := range k.Body.Outputs {
		err = errors.Join(err, forkOutput(results, from, d, &found))
	}
	past := &k.Body.Recorder.Summary
	k.Head.Config = string(found.YAML())
	past.Forked = fmt.Sprintf("%s after round %d", from, past.Last.Round)
	if err == nil {
		err = results.Checkpoint(false, k.WriteWith)
	}
	if err != nil {
		return 0, errors.Join(err, results.Discard())
	}
	return past.Last.Round, results.Close()
}

// forkOutput copies as much of an output as the checkpoint holds. The log of events names its run.
func forkOutput(to *folder.Results, from string, d folder.FileDigest, c *config.Config) error {
	in, _, err := regular.Open(filepath.Join(from, d.Name))
	if err != nil {
		return err
	}
	defer in.Close() // read only
	out, err := to.Append(d.Name)
	switch {
	case err != nil:
	case d.Name == eventlog.File:
		err = eventlog.Rename(out, in, d.Size, c.Name, c.Schedule.Name())
	default:
		_, err = io.CopyN(out, in, d.Size)
	}
	return err
}
