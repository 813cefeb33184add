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

// listed is a row of the CSV file of "fedpace enroll --list": one device and what goes into the
// archive for it.
type listed struct {
	// Name is the device's ID, unique within the file.
	Name string `csv:"name"`
	// Platform is that of the device program, such as linux-arm64; empty: the device has the
	// program already.
	Platform string `csv:"platform"`
	// Class is the device's class in the run's fleet; empty: it has none.
	Class string `csv:"class"`
	// Data is the path on the device where its samples are; empty: they are synthetic.
	Data string `csv:"data"`
}

// packer makes an archive for each device. It holds the credentials, the authority's certificate
// and the settings for install.sh, followed by the device program for the platform as "make dist"
// built it.
type packer struct {
	// server is the URL that devices join, dist the folder of the built programs.
	server, dist string
	// ca is the authority's certificate in PEM; nil: there is none.
	ca []byte
	// programs holds the archives of make dist by platform, as gzipped tar files.
	programs map[string][]byte
}

// enrollList enrolls the devices of the CSV file and writes an archive for each, and devices.yaml
// with their classes, beside those of earlier lists. authority signs the credentials, and g limits
// what each device may do. A device whose archive exists is skipped unless g renews, so that the
// command can be repeated. The whole list is checked before any device gets credentials.
func (e *enrollment) enrollList(c *cobra.Command, authority *auth.Authority, g auth.Grant) error {
	list, err := table.Read[listed](e.list)
	if err != nil {
		return err
	}
	p := packer{server: e.server, dist: e.dist, programs: map[string][]byte{}}
	// An authority without a certificate serves without TLS, so its absence is no error.
	p.ca, err = os.ReadFile(certificate.Folder(e.keys).CA())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	listedNames, err := p.check(e.list, list)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(e.outPath, 0o700); err != nil {
		return err
	}
	existing := 0
	for _, d := range list {
		path := filepath.Join(e.outPath, d.Name+".tar.gz")
		// An archive that exists means that an earlier call enrolled this device.
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
		"devices for a run. Each archive is as secret as its credentials.\n",
		len(list)-existing, names.Printable(e.outPath), existing)
	// The devices of earlier lists stay in the file.
	path := filepath.Join(e.outPath, "devices.yaml")
	earlier, err := earlierDevices(path, listedNames)
	if err != nil {
		return err
	}
	return atomicfile.Write(path, atomicfile.Bytes([]byte(devicesHead+earlier+classLines(list))))
}

// check returns the set of the names in a list of devices, and loads the programs of their platforms. An error
// says what is wrong in which line of the file at path: a name that is none or is there twice, a platform
// without a program, or data that are no whole path.
func (p *packer) check(path string, list []listed) (listedNames map[string]bool, err error) {
	listedNames = map[string]bool{}
	for i, d := range list {
		err := cmp.Or(names.CheckDevice(d.Name), p.load(d.Platform))
		isNoPath := d.Data != "" && d.Data[0] != '/' || strings.ContainsAny(d.Data, "\r\n")
		switch {
		case listedNames[d.Name]:
			err = fmt.Errorf("device %s is there twice", d.Name)
		case isNoPath:
			err = fmt.Errorf("data %q is not a whole path, such as /var/lib/fedpace/own.parquet", d.Data)
		}
		if err != nil {
			// Lines count from one, and the first is the header.
			return nil, fmt.Errorf("%s:%d: %w", path, i+2, err)
		}
		listedNames[d.Name] = true
	}
	return listedNames, nil
}

// classLines returns the lines of devices.yaml with the class of each device in a list, null for one without.
func classLines(list []listed) string {
	var lines strings.Builder
	for _, d := range list {
		class := "null"
		if d.Class != "" {
			class = strconv.Quote(d.Class)
		}
		fmt.Fprintf(&lines, "    %s: %s\n", d.Name, class)
	}
	return lines.String()
}

// devicesHead is how a devices.yaml begins. A line with a device's name and class follows for each.
const devicesHead = "# fedpace run --config exp.yaml --config devices.yaml\ndevices:\n  names:\n"

// earlierDevices returns the lines of the devices in an existing devices.yaml at path that the new
// list does not name, so that a second list adds to the file. listed has the names in the new list.
// The result is "" if there is no file. A file that this command has not written in this form is an
// error, so that nothing that somebody else wrote is lost.
func earlierDevices(path string, listed map[string]bool) (lines string, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	// A file by hand may have other keys, which would be lost.
	devices, isOurs := strings.CutPrefix(string(text), devicesHead)
	for line := range strings.Lines(devices) {
		name, _, isDevice := strings.Cut(strings.TrimPrefix(line, "    "), ": ")
		isOurs = isOurs && isDevice && names.CheckDevice(name) == nil
		if isDevice && !listed[name] {
			lines += line
		}
	}
	if !isOurs {
		return "", fmt.Errorf(
			"%s: it is not as fedpace enroll --list writes it, so it stays as it is: move it away",
			path,
		)
	}
	return lines, nil
}

// load reads the archive of the device program for a platform, such as linux-arm64, from the folder p.dist into
// p.programs, at most once. It fails unless the folder has exactly one. An empty platform needs none.
func (p *packer) load(platform string) error {
	// Several devices of one platform share its archive.
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

// pack writes a device's archive to w: its own members, then the program's archive as it is.
// Readers take concatenated gzip members as one stream, and the tar continues since the first part
// has no end mark when a program follows.
func (p *packer) pack(w io.Writer, d *listed, creds []byte) error {
	// install.sh reads one setting from each line.
	settings := strings.Join([]string{d.Name, p.server, cmp.Or(d.Data, "synthetic"), ""}, "\n")
	// Tar rounds to whole seconds; truncation keeps the time from lying in the future.
	now := time.Now().Truncate(time.Second)
	packed := gzip.NewWriter(w)
	archive := tar.NewWriter(packed)
	for _, f := range []struct {
		name    string
		content []byte
	}{{d.Name + ".creds", creds}, {"ca.pem", p.ca}, {"settings", []byte(settings)}} {
		// A tar writer keeps its first error and returns it on Flush or Close, so it is checked
		// there.
		if f.content != nil {
			_ = archive.WriteHeader(&tar.Header{
				Name:    "fedpace-device/" + f.name,
				Mode:    0o600,
				Size:    int64(len(f.content)),
				ModTime: now,
			})
			_, _ = archive.Write(f.content)
		}
	}
	// Close writes the mark that ends a tar. Flush leaves it out, for the program's part to follow.
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
