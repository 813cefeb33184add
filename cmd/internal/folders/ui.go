package folders

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"fedpace/cmd/internal/cli"
	"fedpace/experiment/ui"
	"fedpace/internal/human"
	"fedpace/internal/names"
	"fedpace/metrics/web"
)

// UICommand makes "fedpace ui", the server of the workbench, which shows the runs in folders in a
// browser until it is interrupted.
func UICommand() *cobra.Command {
	address := "127.0.0.1:7700"
	c := &cobra.Command{
		Use:   "ui [FOLDER]...",
		Short: "Show runs in a browser: those that go on and those that have ended",
		Long: `Show the runs in folders (default: runs) on one page without a password: curves,
a list with a search (best>0.4 schedule.k=fixed -word), groups of seeds, sweeps,
differences of configurations, and each run's page. Tags and notes go into
notes.json. fedpace report writes the page as a file.`,
		Example: `  fedpace ui
  fedpace ui runs/study --http 127.0.0.1:0`,
		RunE: func(c *cobra.Command, args []string) error {
			// Runs that go on are followed as long as the server runs.
			library, err := ui.Open(cli.Version(), orDefault(args)...)
			// A missing default folder means that nothing has run yet.
			if errors.Is(err, fs.ErrNotExist) && len(args) == 0 {
				return errors.New("no run is there (fedpace run starts one)")
			}
			if err != nil {
				return err
			}
			// The standard address is reached from this machine alone.
			server, err := web.Serve(c.Context(), address, library.Pages()...)
			if errors.Is(err, web.ErrInUse) {
				return fmt.Errorf("%w (%s; --http takes another address; port 0 is any "+
					"free one)", err, names.PortHolder(address))
			}
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(
				c.OutOrStdout(),
				"%d %s on http://%s/ (Ctrl-C ends this)\n",
				library.Len(),
				human.Plural(library.Len(), "run"),
				server.Addr(),
			); err != nil {
				return err
			}
			// An address that other machines reach is a risk that the user should know.
			if !names.Loopback(server.Addr()) {
				fmt.Fprintln(c.ErrOrStderr(), "Other machines reach that page: it is not encrypted, has no "+
					"password, and lets them change tags and notes.")
			}
			// The server runs until Ctrl-C.
			<-c.Context().Done()
			return server.Close()
		},
	}
	c.Flags().StringVar(&address, "http", address, "address of the page; port 0 takes any free one")
	return c
}
