package dataset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fedpace/cmd/internal/cli"
	"fedpace/data/fetch"
	"fedpace/internal/human"
	"fedpace/internal/names"
	"fedpace/learn"
)

// dataFetchCommand makes "fedpace data fetch", which downloads one of the archives with fetcher and
// checks it. An interrupted download keeps the part that it has, from which the same command goes
// on.
func dataFetchCommand(archives []fetch.Archive, fetcher fetch.Fetcher) *cobra.Command {
	var destination string
	archiveNames := names.Of(archives, func(a fetch.Archive) string { return a.Name })
	c := &cobra.Command{
		Use:   "fetch NAME",
		Short: "Download a public archive",
		Long: `Download a public archive and check its published checksum. Repeat the command
to continue.

` + archiveTable(archives),
		Example: `  fedpace data fetch shakespeare
  fedpace data fetch cifar100 --to /data`,
		Args: cli.OneArgument("the name of an archive, " + strings.Join(archiveNames, ", ")),
		RunE: func(c *cobra.Command, args []string) error {
			// A name that no archive has is an error of usage.
			archive, err := fetch.Find(archives, args[0])
			if err != nil {
				return cli.Usage(c, err)
			}
			display := cli.NewDisplay(c)
			// A copy, so that one call's display does not stay in the fetcher of the next.
			fetcher := fetcher
			fetcher.Progress = func(p fetch.Progress) { display.Show(statusOfFetch(p)) }
			fetcher.Notice = display.Notice
			result, err := fetcher.Fetch(c.Context(), archive, destination)
			// The display must have ended before anything is printed.
			display.Close()
			// After Ctrl-C, the note says how the download can be resumed.
			if stopped := (*fetch.IncompleteError)(nil); errors.Is(err, context.Canceled) && errors.As(err, &stopped) {
				return cli.Interrupted{Note: stopped.Progress()}
			}
			if err != nil {
				return cli.Interruption(c.Context(), err, "")
			}
			return writeFetched(c, archive, result)
		},
	}
	c.Flags().StringVar(&destination, "to", "data", "folder to download to")
	cli.QuietFlag(c)
	return c
}

// archiveTable returns the list of the archives with name, size and description, aligned for the
// command's help. An unknown size is left empty.
func archiveTable(archives []fetch.Archive) string {
	return cli.Aligned(func(w io.Writer) {
		for _, a := range archives {
			size := ""
			// Some servers do not say how large a file is.
			if a.Size > 0 {
				size = human.Size(a.Size)
			}
			fmt.Fprintf(w, "  %s\t%s\t%s\n", a.Name, size, a.About)
		}
	})
}

// writeFetched prints the result r of fetching the archive a: where the file is, how large it is,
// that its checksum is right, how much was downloaded and what to do next.
func writeFetched(c *cobra.Command, a fetch.Archive, r fetch.Result) error {
	manner := "downloaded"
	// manner says how much of the file came over the network this time.
	switch {
	case r.Downloaded == 0 && r.Resumed == 0:
		manner = "was there, nothing downloaded"
	case r.Resumed > 0:
		manner = fmt.Sprintf("%s downloaded, the rest was there", human.Size(r.Downloaded))
	}
	// A file that is there has been checked against its checksum as well.
	_, err := fmt.Fprintf(
		c.OutOrStdout(),
		"%s: %s, %s is right; %s\n%s\n",
		names.Printable(r.Path),
		human.Size(r.Bytes),
		a.Sum.Algorithm,
		manner,
		nextStep(a.Name, names.Printable(r.Path)),
	)
	return err
}

// nextStep returns a line that says what to do with the archive of this name, whose file is at
// path. Raw NIST files first go through LEAF's tools; all other archives are read as they are.
func nextStep(name, path string) string {
	// NIST's scans are no federated set by themselves.
	switch name {
	case "nist-by-class", "nist-by-write":
		return "next: LEAF's data/femnist tools make JSON from by_class.zip and by_write.zip; " + runCommand(
			"femnist",
			"FOLDER",
			learn.Samples{},
		) + " reads that"
	}
	return "next: " + runCommand(name, path, learn.Samples{})
}

// statusOfFetch returns the progress p of a download as a line for the display. Without a size from
// the server, there is neither a share nor a time left. The first number of each part is its rank:
// parts of a larger one are left out first where the line is narrow.
func statusOfFetch(p fetch.Progress) cli.Status {
	s := cli.Status{Subject: p.Archive, Done: -1}
	s.Add(0, "%s", p.Archive)
	// The server has told the size.
	if p.Total > 0 {
		s.Done = float64(p.Done) / float64(p.Total)
		s.Add(1, "%s of %s", human.Size(p.Done), human.Size(p.Total))
		s.Add(2, "%.0f %%", 100*s.Done)
	} else {
		s.Add(0, "%s", human.Size(p.Done))
	}
	// The rate is 0 until enough was downloaded to estimate it.
	if rate := p.Rate(); rate > 0 {
		s.Add(4, "%s/s", human.Size(int64(rate)))
		// The rate so far foretells the time that is left.
		if p.Total > p.Done {
			remaining := time.Duration(float64(p.Total-p.Done) / rate * float64(time.Second))
			s.Add(3, "%s left", remaining.Round(time.Second))
		}
	}
	return s
}
