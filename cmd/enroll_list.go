package cmd

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fedpace/bus/auth"
	"fedpace/bus/certificate"
	"fedpace/internal/atomicfile"
	"fedpace/internal/names"
	"fedpace/internal/table"
)

// listed is a device in a list of those to enroll.
type listed struct {
	Name     string `csv:"name"`
	Platform string `csv:"platform"` // of the program, such as linux-arm64; empty: the device has it
	Class    string `csv:"class"`    // of the run's fleet; empty: none
	Data     string `csv:"data"`     // where the device has its samples; empty: they are synthetic
}

// packer makes an archive for each device: what "make dist" made for its platform, and behind it
// credentials, the authority's certificate, and what install.sh is to be told.
type packer struct {
	server, dist string
	ca           []byte            // nil: there is none
	programs     map[string][]byte // the first member of the archives' gzip, by platform
}

// inArchive is the folder that make's archives unpack into, too.
const inArchive = "fedpace-device/"

// enrollList enrolls the devices of a list that have no archive yet, or all of them anew.
func (e *enrollment) enrollList(c *cobra.Command, authority *auth.Authority, g auth.Grant) error {
	list, err := table.Read[listed](e.list)
	if err != nil {
		return err
	}
	p := packer{server: e.server, dist: e.dist, programs: map[string][]byte{"": nil}}
	if p.ca, err = os.ReadFile(certificate.Folder(e.keys).CA()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	classes, seen := "# fedpace run --config exp.yaml --config devices.yaml\ndevices:\n  names:\n", map[string]bool{}
	for i, d := range list { // before the first has credentials
		err := p.load(d.Platform)
		switch {
		case seen[d.Name]:
			err = fmt.Errorf("device %s is there twice", d.Name)
		case d.Data != "" && d.Data[0] != '/' || strings.ContainsAny(d.Data, "\r\n"):
			err = fmt.Errorf("data %q is not a whole path, such as /var/lib/fedpace/own.parquet", d.Data)
		}
		if err = cmp.Or(names.CheckDevice(d.Name), err); err != nil {
			return fmt.Errorf("%s:%d: %w", e.list, i+2, err)
		}
		seen[d.Name] = true
		class := "null"
		if d.Class != "" {
			class = fmt.Sprintf("%q", d.Class)
		}
		classes += fmt.Sprintf("    %s: %s\n", d.Name, class)
	}
	if err := os.MkdirAll(e.out, 0o700); err != nil {
		return err
	}
	there := 0
	for _, d := range list {
		path := filepath.Join(e.out, d.Name+".tar.gz")
		if _, err := os.Lstat(path); err == nil && !g.Renew {
			there++
			continue
		}
		g.ID = d.Name
		if _, err := issue(authority, g, path, func(creds []byte) func(io.Writer) error {
			return func(w io.Writer) error { return p.pack(w, &d, creds) }
		}); err != nil {
			return err
		}
	}
	if err := atomicfile.Write(filepath.Join(e.out, "devices.yaml"), atomicfile.Bytes([]byte(classes))); err != nil {
		return err
	}
	fmt.Fprintf(c.ErrOrStderr(), "%d archives are made in %s, %d were there; devices.yaml beside them names the devices for a run. Each archive is as secret as its credentials.\n", len(list)-there, e.out, there)
	return nil
}

// load reads make's archive for a platform, whose files become a member of a gzip that another can follow.
func (p *packer) load(platform string) error {
	if _, known := p.programs[platform]; known {
		return nil
	}
	pattern := filepath.Join(p.dist, "fedpace-device-*-"+platform+".tar.gz")
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) != 1 {
		return fmt.Errorf("platform %s: there are %d archives %s, want one (make dist; leave the platform empty where the device has the program)", platform, len(found), pattern)
	}
	f, err := os.Open(found[0])
	if err != nil {
		return err
	}
	defer f.Close() // read only
	plain, err := gzip.NewReader(f)
	if err != nil {
		return fmt.Errorf("%s: %w", found[0], err)
	}
	var member bytes.Buffer
	packed := gzip.NewWriter(&member)
	from, to := tar.NewReader(plain), tar.NewWriter(packed)
	for err == nil {
		var h *tar.Header
		if h, err = from.Next(); err == nil {
			if err = to.WriteHeader(h); err == nil {
				_, err = io.Copy(to, from)
			}
		}
	}
	if !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: %w", found[0], err)
	}
	err = errors.Join(to.Flush(), packed.Close()) // the archive goes on
	p.programs[platform] = member.Bytes()
	return err
}

// pack writes a device's archive.
func (p *packer) pack(w io.Writer, d *listed, creds []byte) error {
	if _, err := w.Write(p.programs[d.Platform]); err != nil {
		return err
	}
	packed := gzip.NewWriter(w)
	to := tar.NewWriter(packed)
	add := func(name string, mode int64, content []byte) (err error) {
		if content != nil {
			err = to.WriteHeader(&tar.Header{Name: inArchive + name, Mode: mode, Size: int64(len(content)), ModTime: time.Now()})
			_, err2 := to.Write(content)
			err = errors.Join(err, err2)
		}
		return err
	}
	settings := strings.Join([]string{d.Name, p.server, cmp.Or(d.Data, "synthetic"), ""}, "\n")
	return errors.Join(add(d.Name+".creds", 0o600, creds), add("ca.pem", 0o644, p.ca), add("settings", 0o644, []byte(settings)), to.Close(), packed.Close())
}
