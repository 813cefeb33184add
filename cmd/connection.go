package cmd

import (
	"fmt"

	"github.com/spf13/cobra"

	"fedpace/cmd/internal/cli"
	"fedpace/experiment/run"
	"fedpace/internal/names"
)

// connectionFlags are those of a command whose server may be another's or its own.
type connectionFlags struct {
	cli.Connection
	keys string
}

func (f *connectionFlags) add(c *cobra.Command) {
	f.Add(c)
	c.Flags().StringVar(&f.keys, "keys", "", "folder of the keys of a server that listens (nats.listen); default: this user's")
}

func (f *connectionFlags) connection() run.Connection {
	c := remote(&f.Connection)
	c.Keys = f.keys
	return c
}

// remote is a connection to a server of another process.
func remote(f *cli.Connection) run.Connection {
	return run.Connection{URL: f.URL, Creds: f.Creds, TLS: f.TLS}
}

// intoConfig checks the flags and makes their server the configuration's, without
// its password, which nobody should read in the results.
func intoConfig(f *cli.Connection, c *cobra.Command, sets []string) ([]string, error) {
	if f.URL != "" {
		sets = append(sets[:len(sets):len(sets)], fmt.Sprintf("nats.url=%q", names.Redacted(f.URL)))
	}
	return sets, f.Check(c)
}
