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
	"fedpace/internal/names"
)

// certificateCommand makes "fedpace certificate", which writes a server's certificate for the names
// in --host and, the first time, the authority that signs it. With --out it also copies the
// authority's certificate, which everybody needs who connects.
func certificateCommand() *cobra.Command {
	var f certificateFlags
	c := &cobra.Command{
		Use:   "certificate --host NAME",
		Short: "Make a server's TLS certificate, and the authority that signs it",
		Long: `Make a server's TLS certificate: server.pem and server.key in the folder of the
keys, where fedpace's own server (nats.listen) finds them; another server needs
both. Whoever connects needs ca.pem (--tls-ca); ca.key is secret. To renew the
certificate, repeat the command and restart the server.`,
		Example: `  fedpace certificate --host 192.168.1.10
  fedpace certificate --host lab.example --host 192.168.1.10 --out ca.pem`,
		RunE: func(c *cobra.Command, _ []string) error { return f.issue(c) },
	}
	s := c.Flags()
	s.StringSliceVar(&f.hosts, "host", nil, "`NAME` or IP address of the server, several separated by commas")
	s.DurationVar(&f.life, "expires", 8760*time.Hour, "validity of the certificate")
	s.StringVar(&f.keys, "keys", "", "folder of the keys (default this user's)")
	s.StringVarP(&f.copyPath, "out", "o", "", "`FILE` to copy ca.pem to")
	return c
}

// certificateFlags are the flags of "fedpace certificate".
type certificateFlags struct {
	// hosts are the names and addresses that the certificate holds for, and life is how long it does.
	hosts []string
	life  time.Duration
	// keys is the folder of the keys; empty: that of this user.
	keys string
	// copyPath is the file to which the authority's certificate is copied; empty: none.
	copyPath string
}

// issue makes the server's certificate, and the authority that signs it if the folder of the keys has none. It
// copies the authority's certificate, never its key, to --out, and tells the user where everything is.
func (f *certificateFlags) issue(c *cobra.Command) error {
	// A certificate holds only for the names and addresses that it lists.
	if len(f.hosts) == 0 {
		return cli.Usage(c, fmt.Errorf("--host is missing: the name or IP address in the URL that devices "+
			"use; several with commas between them"))
	}
	// A certificate that has expired already would be refused by everybody.
	if f.life <= 0 {
		return cli.Usage(c, fmt.Errorf("--expires %v: want some time, such as 8760h", f.life))
	}
	keys, err := run.KeysFolder(f.keys)
	if err != nil {
		return err
	}
	folder := certificate.Folder(keys)
	expiry, err := folder.Issue(f.hosts, f.life)
	if err != nil {
		return err
	}
	public := folder.CA()
	if f.copyPath != "" {
		public = f.copyPath
		text, err := os.ReadFile(folder.CA())
		if err != nil {
			return err
		}
		if err := atomicfile.Write(f.copyPath, atomicfile.Bytes(text)); err != nil {
			return err
		}
	}
	// Messages go to standard error, as this command has no result to print.
	fmt.Fprintf(c.ErrOrStderr(), "The certificate for %s is %s, good until %s; its key is %s.\nGive %s to "+
		"everybody who connects (--tls-ca). It is no secret.\n",
		names.Printable(fmt.Sprint(f.hosts)),
		names.Printable(folder.Cert()),
		expiry.Local().Format(time.DateOnly),
		names.Printable(folder.Key()),
		names.Printable(public),
	)
	return nil
}
