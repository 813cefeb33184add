package dataset

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fedpace/cmd/internal/cli"
	"fedpace/data"
	"fedpace/data/federated"
	"fedpace/internal/human"
	"fedpace/internal/names"
)

// dataPrepareCommand makes "fedpace data prepare", which keeps a set in a file from which runs
// start at once.
func dataPrepareCommand() *cobra.Command {
	// Without a flag for a kind of partition each sample stays with its client.
	const kindFlag = ""
	return keepCommand(kindFlag, &cobra.Command{
		Use:   "prepare PATH --out FILE",
		Short: "Keep a set in a file that opens at once",
		Long: `Write the set at PATH to a file that is mapped into memory, so that run --set
data=FILE starts at once. It is rebuilt when sources or options have changed or
it is damaged.`,
		Example: `  fedpace data prepare femnist.parquet --out femnist.fedpace
  fedpace run --set task=femnist --set data=femnist.fedpace`,
	})
}

// dataPartitionCommand makes "fedpace data partition", which deals the samples of a set to other
// clients and keeps the result in a file, as prepare does. --kind names the way of dealing.
func dataPartitionCommand() *cobra.Command {
	return keepCommand("kind", &cobra.Command{
		Use:   "partition PATH --kind KIND --out FILE",
		Short: "Deal a set's samples to other clients",
		Long: `Deal the training samples of the set at PATH to synthetic clients, into a
prepared file. The kinds (docs/data.md): iid; dirichlet (equal sizes, labels by
Dir(alpha)); shards (sorted by label, cut and dealt); pachinko (CIFAR-100's
coarse labels by Dir(alpha), fine ones by Dir(beta)); quantity (sizes by
Dir(alpha)); and, as in Flower Datasets, dirichlet_by_class, inner_dirichlet,
pathological, size, linear, square, exponential, continuous and
grouped_natural_id.`,
		//nolint:lll // A command of an example is one line.
		Example: `  fedpace data partition cifar-100-binary.tar.gz --kind dirichlet --alpha 0.3 --clients 100 --out cifar.fedpace
  fedpace data partition femnist.parquet --kind shards --shards 2 --out shards.fedpace
  fedpace run --set task=femnist --set data=shards.fedpace`,
	})
}

// keepCommand completes c, the command "prepare" or "partition", which writes a set to a file. The command
// "partition" deals the samples to new clients: kindFlag is the name of its flag for the kind of partition. For
// "prepare", which leaves each sample with its client, kindFlag is empty.
func keepCommand(kindFlag string, c *cobra.Command) *cobra.Command {
	var s source
	var outPath string
	c.Args = s.argument("the set's path")
	c.RunE = func(c *cobra.Command, args []string) error {
		// A partition without a kind would be the same as prepare.
		if kindFlag != "" && !c.Flags().Changed(kindFlag) {
			kinds := strings.Join(PartitionKinds(), ", ")
			return cli.Usage(c, fmt.Errorf("--%s is absent: want one of %s", kindFlag, kinds))
		}
		return s.prepare(c, args, outPath)
	}
	s.add(c)
	if kindFlag != "" {
		s.addPartition(c, kindFlag)
	}
	c.Flags().StringVar(&outPath, "out", "", "the file to write")
	return c
}

// prepare writes the set to the file outPath, unless that file is up to date, and prints what is in
// it and how a run uses it. args are the arguments of the command c.
func (s *source) prepare(c *cobra.Command, args []string, outPath string) error {
	if err := s.check(c, args); err != nil {
		return err
	}
	// These sources cannot be prepared, or need not be.
	switch {
	case outPath == "":
		return cli.Usage(c, errors.New("--out is absent: want the file to write"))
	case strings.HasPrefix(s.path, madePrefix):
		return fmt.Errorf("%s: a synthetic set is made as it is used, there is nothing to prepare", s.path)
	case data.IsPrepared(s.path):
		return fmt.Errorf("%s: is a prepared file; want the set that it was made from", s.path)
	}
	// The checks come before the work, which may take minutes.
	if err := checkDestination(outPath, s.path); err != nil {
		return err
	}
	// The time includes the reading of the sources.
	begin := time.Now()
	display := cli.NewDisplay(c)
	set, reason, err := data.OpenPrepared(s.reader, s.path, outPath, s.optionsWithProgress(display))
	display.Close()
	if err != nil {
		return err
	}
	// The description reads all samples, which also checks the file.
	stats, err := federated.Describe(c.Context(), set)
	if err := errors.Join(err, set.Close()); err != nil {
		return cli.Interruption(c.Context(), err, outPath)
	}
	w := c.OutOrStdout()
	// OpenPrepared gives a reason only if it made the file.
	if reason == "" {
		fmt.Fprintf(w, "prepared   %s is up to date\n", names.Printable(outPath))
	} else {
		// The file was made just now, and its size is worth a line.
		stat, err := os.Stat(outPath)
		if err != nil {
			return err
		}
		fmt.Fprintf(
			w,
			"prepared   %s, %s in %s (%s)\n",
			names.Printable(outPath),
			human.Size(stat.Size()),
			human.Seconds(time.Since(begin).Seconds()),
			reason,
		)
	}
	// The last line says how a run uses the file.
	next := runCommand(taskOf(stats.Info), outPath, stats.Info.Samples)
	// A configuration has the settings of its run already.
	if s.config != "" {
		next = "fedpace run --config " + shellWord(s.config) + " --set data=" + shellWord(outPath)
	}
	// A set without clients cannot be run.
	if stats.Info.Undealt {
		next = "the set it was made from: fedpace data partition deals it to clients"
	}
	_, err = fmt.Fprintf(w, "%suse        %s\n", stats, names.Printable(next))
	return err
}

// checkDestination returns an error if the file outPath must not be written: something else than a prepared
// file is there, which a mistyped --out would destroy, or it lies within the folder path that the
// set is read from, and would become a part of its own source.
func checkDestination(outPath, path string) error {
	// Only an absent or a prepared file may be written.
	switch stat, err := os.Stat(outPath); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("--out: %w", err)
	case stat.IsDir():
		return fmt.Errorf("--out %s: is a folder, want a file", outPath)
	case !data.IsPrepared(outPath):
		return fmt.Errorf("--out %s: is there and is no prepared file; remove it, or write to another", outPath)
	}
	// A path that cannot be read is reported by whoever reads it.
	if stat, err := os.Stat(path); err != nil || !stat.IsDir() {
		return nil
	}
	// Absolute paths can be compared, wherever the command was called.
	source, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	destination, err := filepath.Abs(outPath)
	if err != nil {
		return err
	}
	// A local relative path does not leave the source folder.
	if rel, err := filepath.Rel(source, destination); err == nil && filepath.IsLocal(rel) {
		return fmt.Errorf("--out %s: is inside %s, which is read whole; want a file elsewhere", outPath, path)
	}
	return nil
}
