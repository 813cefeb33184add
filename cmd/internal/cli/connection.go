package cli

import (
	"github.com/spf13/cobra"

	"fedpace/bus/natsconn"
	"fedpace/internal/names"
)

// AddServer gives a command the flags that say how a NATS server is reached.
func AddServer(c *cobra.Command, to *natsconn.Config) {
	s := c.Flags()
	s.StringVar(&to.URL, "nats", "", "URL of the NATS server, e.g. nats://host:4222; those of a cluster separated by commas")
	s.StringVar(&to.Creds, "creds", "", "file of credentials for it (fedpace enroll)")
	s.StringVar(&to.TLS.CA, "tls-ca", "", "PEM file of the authority of the other end's certificate")
	s.StringVar(&to.TLS.Cert, "tls-cert", "", "PEM file of this end's certificate")
	s.StringVar(&to.TLS.Key, "tls-key", "", "PEM file of its key")
	Check(c, "nats", func(url string) error {
		if url == "" { // as a script may give it
			return nil
		}
		return names.CheckURL(url)
	})
}
