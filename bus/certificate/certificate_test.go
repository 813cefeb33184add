package certificate

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// read reads the certificate in a file.
func read(t *testing.T, path string) *x509.Certificate {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		t.Fatalf("%s is no PEM file", path)
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestFolder_ServerProven(t *testing.T) {
	f := Folder(filepath.Join(t.TempDir(), "keys"))
	ends, err := f.Issue([]string{"lab.example", "192.168.1.10"}, 48*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	ca, server := read(t, f.CA()), read(t, f.Cert())
	if !server.NotAfter.Equal(ends.Truncate(time.Second).UTC()) || server.NotAfter.After(time.Now().Add(48*time.Hour)) {
		t.Errorf("it ends on %v, %v is told", server.NotAfter, ends)
	}
	trusted := func(roots *x509.Certificate, c *x509.Certificate, name string) error {
		pool := x509.NewCertPool()
		pool.AddCert(roots)
		_, err := c.Verify(x509.VerifyOptions{Roots: pool, DNSName: name})
		if err == nil { // a server of a cluster is another one's client
			_, err = c.Verify(x509.VerifyOptions{Roots: pool, DNSName: name, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		}
		return err
	}
	for _, name := range []string{"lab.example", "192.168.1.10", "localhost", "127.0.0.1", "::1"} {
		if err := trusted(ca, server, name); err != nil {
			t.Errorf("as %s: %v", name, err)
		}
	}
	for _, name := range []string{"other.example", "192.168.1.11"} {
		if trusted(ca, server, name) == nil {
			t.Errorf("it passes for %s", name)
		}
	}
	for path, want := range map[string]os.FileMode{f.CA(): 0o644, f.Cert(): 0o644, f.caKey(): 0o600, f.Key(): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want mode %#o", path, info.Mode(), err, want)
		}
	}

	// Renewed, it is another, which those who have the authority trust as it is.
	if _, err := f.Issue([]string{"lab.example"}, 2*authorityLife); err != nil {
		t.Fatal(err)
	}
	renewed := read(t, f.Cert())
	if again := read(t, f.CA()); !again.Equal(ca) {
		t.Error("the authority is another after a renewal")
	}
	if err := trusted(ca, renewed, "lab.example"); err != nil || renewed.Equal(server) {
		t.Errorf("the renewed certificate: %v", err)
	}
	if renewed.NotAfter.After(ca.NotAfter) {
		t.Errorf("it outlives its authority: %v, %v", renewed.NotAfter, ca.NotAfter)
	}
	// A server's key makes no certificates.
	other := Folder(t.TempDir())
	if _, err := other.Issue([]string{"lab.example"}, time.Hour); err != nil {
		t.Fatal(err)
	}
	if trusted(ca, read(t, other.Cert()), "lab.example") == nil || server.IsCA {
		t.Error("another authority's certificate is trusted")
	}
}

func TestOpen_NoAuthority(t *testing.T) {
	f := Folder(t.TempDir())
	if _, err := f.Issue(nil, time.Hour); err == nil || !strings.Contains(err.Error(), "0 hosts") {
		t.Errorf("without a host: %v", err)
	}
	for _, host := range []string{"", "tls://lab", "lab:4222", "a b"} {
		if _, err := f.Issue([]string{"a", host}, time.Hour); err == nil || !strings.Contains(err.Error(), "neither a name nor an IP address") {
			t.Errorf("for %q: %v", host, err)
		}
	}
	if _, err := f.Issue([]string{"a"}, time.Hour); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{f.CA(): "", f.caKey(): "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"} {
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Issue([]string{"a"}, time.Hour); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("a broken %s: %v", path, err)
		}
		if err := os.WriteFile(path, before, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// A key of another authority signs nothing in this one's name.
func TestAuthority_ForeignKey(t *testing.T) {
	f, other := Folder(t.TempDir()), Folder(t.TempDir())
	for _, folder := range []Folder{f, other} {
		if _, err := folder.Issue([]string{"a"}, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(other.caKey(), f.caKey()); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Issue([]string{"a"}, time.Hour); err == nil || !strings.Contains(err.Error(), f.caKey()) {
		t.Errorf("the key of another authority: %v", err)
	}
}
