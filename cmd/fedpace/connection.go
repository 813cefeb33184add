package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"fedpace/experiment/run"
	"fedpace/internal/names"
)

// connectionFlags say how a NATS server is reached; the commands that can talk to
// one share them.
type connectionFlags struct{ c run.Connection }

func (f *connectionFlags) add(c *cobra.Command) {
	s := c.Flags()
	s.StringVar(&f.c.URL, "nats", "", "URL of the NATS server, e.g. nats://host:4222; several of a cluster with commas between them")
	s.StringVar(&f.c.Creds, "creds", "", "file of credentials for it (fedpace enroll)")
	s.StringVar(&f.c.TLS.CA, "tls-ca", "", "PEM file of the authority that signed the other end's certificate")
	s.StringVar(&f.c.TLS.Cert, "tls-cert", "", "PEM file of this end's certificate")
	s.StringVar(&f.c.TLS.Key, "tls-key", "", "PEM file of its key")
}

// addKeys is for commands whose server may be their own.
func (f *connectionFlags) addKeys(c *cobra.Command) {
	c.Flags().StringVar(&f.c.Keys, "keys", "", "folder of the keys of a server that listens (nats.listen); default: this user's")
}

// check refuses what is no server's URL.
func (f *connectionFlags) check(c *cobra.Command) error {
	if f.c.URL == "" {
		return nil
	}
	if err := names.CheckURL(f.c.URL); err != nil {
		return usage(c, fmt.Errorf("--nats: %w", err))
	}
	return nil
}

// into makes the server of the flags the configuration's, without what nobody
// should read in its results.
func (f *connectionFlags) into(c *cobra.Command, sets []string) ([]string, error) {
	if f.c.URL != "" {
		sets = append(sets[:len(sets):len(sets)], fmt.Sprintf("nats.url=%q", names.Redacted(f.c.URL)))
	}
	return sets, f.check(c)
}
