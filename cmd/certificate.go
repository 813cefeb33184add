package cmd

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"fedpace/bus/certificate"
	"fedpace/cmd/internal/cli"
	"fedpace/experiment/run"
	"fedpace/internal/atomicfile"
)

// certificateCommand makes "fedpace certificate", which writes a server's certificate for the names
// in --host and, the first time, the authority that signs it. With --out it also copies the
// authority's certificate, which everybody needs who connects.
func certificateCommand() *cobra.Command {
	var keys, copyPath string
	var hosts []string
	var life time.Duration
	c := &cobra.Command{
		Use:   "certificate --host NAME",
		Short: "Make a server's TLS certificate, and the authority that signs it",
		Long: `Make a server's TLS certificate: server.pem and server.key in the folder of the
keys, where fedpace's own server (nats.listen) finds them; give another server
both. Whoever connects needs ca.pem (--tls-ca); ca.key is secret. Repeat the
command to renew the certificate, and restart the server.`,
		Example: `  fedpace certificate --host 192.168.1.10
  fedpace certificate --host lab.example --host 192.168.1.10 --out ca.pem`,
		RunE: func(c *cobra.Command, _ []string) error {
			// A certificate holds only for the names and addresses that it lists.
			if len(hosts) == 0 {
				return cli.Usage(c, fmt.Errorf("--host is missing: the name or IP address in the URL that devices "+
					"use; several with commas between them"))
			}
			// A certificate that has expired already would be refused by everybody.
			if life <= 0 {
				return cli.Usage(c, fmt.Errorf("--expires %v: want some time, such as 8760h", life))
			}
			// An empty flag stands for the folder of this user.
			keys, err := run.KeysFolder(keys)
			if err != nil {
				return err
			}
			folder := certificate.Folder(keys)
			// The authority is made if the folder has none.
			expiry, err := folder.Issue(hosts, life)
			if err != nil {
				return err
			}
			public := folder.CA()
			// --out copies the authority's public certificate, never its key.
			if copyPath != "" {
				public = copyPath
				text, err := os.ReadFile(folder.CA())
				if err != nil {
					return err
				}
				if err := atomicfile.Write(copyPath, atomicfile.Bytes(text)); err != nil {
					return err
				}
			}
			// Messages go to standard error, as this command has no result to print.
			fmt.Fprintf(c.ErrOrStderr(), "The certificate for %v is %s, good until %s; its key is %s.\nGive %s to "+
				"everybody who connects (--tls-ca). It is no secret.\n",
				hosts, folder.Cert(), expiry.Local().Format(time.DateOnly), folder.Key(), public)
			return nil
		},
	}
	s := c.Flags()
	s.StringSliceVar(&hosts, "host", nil, "`NAME` or IP address of the server, several separated by commas")
	s.DurationVar(&life, "expires", 8760*time.Hour, "validity of the certificate")
	s.StringVar(&keys, "keys", "", "folder of the keys (default this user's)")
	s.StringVarP(&copyPath, "out", "o", "", "`FILE` to copy ca.pem to")
	return c
}
