package cmd

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fedpace/bus/auth"
	"fedpace/bus/certificate"
	"fedpace/internal/atomicfile"
	"fedpace/internal/names"
	"fedpace/internal/table"
)

// listed is a row of the CSV file of "fedpace enroll --list": a device and what its archive
// gets.
type listed struct {
	Name string `csv:"name"`
	// Of the program, such as linux-arm64; empty: the device has it.
	Platform string `csv:"platform"`
	// Of the run's fleet; empty: none.
	Class string `csv:"class"`
	// Where the device has its samples; empty: they are synthetic.
	Data string `csv:"data"`
}

// packer makes an archive for each device: its credentials, the authority's certificate and what
// install.sh is to be told, and behind them what "make dist" made for its platform.
type packer struct {
	server, dist string
	ca           []byte
	// make's archives, by platform.
	programs map[string][]byte
}

// enrollList enrolls the devices of a list that have no archive yet, or all of them anew.
func (e *enrollment) enrollList(c *cobra.Command, authority *auth.Authority, g auth.Grant) error {
	list, err := table.Read[listed](e.list)
	if err != nil {
		return err
	}
	p := packer{server: e.server, dist: e.dist, programs: map[string][]byte{}}
	if p.ca, err = os.ReadFile(certificate.Folder(e.keys).CA()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	classes := "# fedpace run --config exp.yaml --config devices.yaml\ndevices:\n  names:\n"
	seen := map[string]bool{}
	for i, d := range list { // before the first has credentials
		err := cmp.Or(names.CheckDevice(d.Name), p.load(d.Platform))
		switch {
		case seen[d.Name]:
			err = fmt.Errorf("device %s is there twice", d.Name)
		case d.Data != "" && d.Data[0] != '/' || strings.ContainsAny(d.Data, "\r\n"):
			err = fmt.Errorf("data %q is not a whole path, such as /var/lib/fedpace/own.parquet", d.Data)
		}
		if err != nil {
			return fmt.Errorf("%s:%d: %w", e.list, i+2, err)
		}
		seen[d.Name] = true
		class := "null"
		if d.Class != "" {
			class = strconv.Quote(d.Class)
		}
		classes += fmt.Sprintf("    %s: %s\n", d.Name, class)
	}
	if err := os.MkdirAll(e.outPath, 0o700); err != nil {
		return err
	}
	existing := 0
	for _, d := range list {
		path := filepath.Join(e.outPath, d.Name+".tar.gz")
		if _, err := os.Lstat(path); err == nil && !g.Renew {
			existing++
			continue
		}
		g.ID = d.Name
		if _, err := issue(
			authority,
			g,
			path,
			func(w io.Writer, creds []byte) error { return p.pack(w, &d, creds) },
		); err != nil {
			return err
		}
	}
	fmt.Fprintf(c.ErrOrStderr(), "%d archives are made in %s, %d were there; devices.yaml beside them names the "+
		"devices for a run. Each archive is as secret as its credentials.\n", len(list)-existing, e.outPath, existing)
	return atomicfile.Write(filepath.Join(e.outPath, "devices.yaml"), atomicfile.Bytes([]byte(classes)))
}

// load reads the archive of the device program for a platform, such as linux-arm64, once. An
// empty platform needs none.
func (p *packer) load(platform string) error {
	if platform == "" || p.programs[platform] != nil {
		return nil
	}
	pattern := filepath.Join(p.dist, "fedpace-device-*-"+platform+".tar.gz")
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) != 1 {
		return fmt.Errorf("platform %s: there are %d archives %s, want one (make dist; leave the platform empty "+
			"where the device has the program)", platform, len(found), pattern)
	}
	p.programs[platform], err = os.ReadFile(found[0])
	return err
}

// pack writes a device's archive. Members of a gzip are read one after the other, and a tar goes on
// where one before it has not been closed.
func (p *packer) pack(w io.Writer, d *listed, creds []byte) error {
	settings := strings.Join([]string{d.Name, p.server, cmp.Or(d.Data, "synthetic"), ""}, "\n")
	now := time.Now().Truncate(time.Second) // tar rounds, perhaps to a time that is to come
	packed := gzip.NewWriter(w)
	archive := tar.NewWriter(packed)
	for _, f := range []struct {
		name    string
		content []byte
	}{{d.Name + ".creds", creds}, {"ca.pem", p.ca}, {"settings", []byte(settings)}} {
		if f.content != nil { // a writer that has failed goes on to fail
			_ = archive.WriteHeader(&tar.Header{
				Name:    "fedpace-device/" + f.name,
				Mode:    0o600,
				Size:    int64(len(f.content)),
				ModTime: now,
			})
			_, _ = archive.Write(f.content)
		}
	}
	end := archive.Flush
	if d.Platform == "" {
		end = archive.Close
	}
	err := errors.Join(end(), packed.Close())
	if err == nil {
		_, err = w.Write(p.programs[d.Platform])
	}
	return err
}
