//go:build unix

package chaos

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"fedpace/internal/testkit/testport"
)

// keys are those of a server's users, handled by the program's own command.
type keys struct {
	t   *testing.T
	dir string
}

func newKeys(t *testing.T) *keys { return &keys{t, filepath.Join(t.TempDir(), "keys")} }

// enroll runs the command and returns what it printed.
func (k *keys) enroll(args ...string) string {
	k.t.Helper()
	out, err := exec.Command(program, append([]string{"enroll", "--keys", k.dir}, args...)...).Output()
	if err != nil {
		k.t.Fatalf("enroll %v: %v", args, err)
	}
	return string(out)
}

func (k *keys) creds(name string) string { return filepath.Join(k.dir, name+".creds") }

func TestSecurity_OwnServer(t *testing.T) {
	t.Parallel()
	c := courses[0]
	want := c.undisturbed(t)
	k := newKeys(t)
	k.enroll("--host", "box")
	k.enroll("--host", "thief")
	address := testport.Held(t)
	out := filepath.Join(t.TempDir(), "run")
	args := []string{"coordinator", "--keys", k.dir, "--set", "nats.listen=" + address, "--set", "pace=3"}
	run := fedpace(t, append(args, c.flags(out)...)...)
	run.until("can join on nats://"+address, patience)
	thief := host(t, "nats://"+address, "--creds", k.creds("thief"), "--name", "thief")
	thief.until("here, with 1 trainer", patience)
	k.enroll("--revoke", "--host", "thief")
	thief.fails("these credentials have been revoked", patience)
	host(t, "nats://"+address).fails("the server asks for credentials", patience)
	host(t, "nats://"+address, "--creds", k.creds("thief")).fails("the server does not accept these credentials", patience)
	host(t, "nats://"+address, "--creds", k.creds("box"), "--once")
	run.finish(patience)
	resultOf(t, out).equals(t, want, "over a server of its own")
}

func TestSecurity_ExternalServer(t *testing.T) {
	t.Parallel()
	c := courses[0]
	want := c.undisturbed(t)
	k := newKeys(t)
	k.enroll("--coordinator")
	k.enroll("--host", "box")
	k.enroll("--host", "thief")
	dir := t.TempDir()
	certificate, key := certificates(t, dir)
	config, port := filepath.Join(dir, "nats.conf"), heldPort(t)
	configure := func() {
		text := fmt.Sprintf("listen: 127.0.0.1:%d\njetstream { store_dir: %q }\ntls { cert_file: %q, key_file: %q }\n%s",
			port, filepath.Join(dir, "js"), certificate, key, k.enroll("--server-config"))
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	configure()
	s := newServer(t, serverOptions{Config: config, Port: port})
	trust := []string{"--tls-ca", certificate}
	with := func(name string) []string { return append(trust, "--creds", k.creds(name)) }
	fedpace(t, append([]string{"coordinator", "--nats", s.url()}, trust...)...).fails("the server asks for credentials", patience)
	host(t, s.url(), "--creds", k.creds("box")).fails("name its file", patience)
	thief := host(t, s.url(), with("thief")...)
	thief.until("Waiting for runs", patience)
	k.enroll("--revoke", "--host", "thief")
	configure()
	if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	thief.fails("these credentials have been revoked", patience)
	out := filepath.Join(t.TempDir(), "run")
	host(t, s.url(), with("box")...)
	run := c.coordinate(t, s.url(), out, append(with("coordinator"), "--set", "pace=0")...)
	run.finish(patience)
	resultOf(t, out).equals(t, want, "with TLS and credentials")
}

// certificates makes a certificate that signs itself, for 127.0.0.1.
func certificates(t *testing.T, dir string) (certificate, key string) {
	t.Helper()
	pair, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &pair.PublicKey, pair)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(pair)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, b []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return write("cert.pem", "CERTIFICATE", der), write("key.pem", "PRIVATE KEY", secret)
}

// What is wrong with a server or a command line is one line.
func TestSecurity_UnfitServers(t *testing.T) {
	t.Parallel()
	s := newServer(t, serverOptions{NoJetStream: true})
	out := filepath.Join(t.TempDir(), "run")
	for want, args := range map[string][]string{
		"the server has no JetStream": {"coordinator", "--nats", s.url(), "--out", out},
		"nobody.creds: no such file":  {"host", "--nats", s.url(), "--creds", "nobody.creds"},
	} {
		fedpace(t, args...).fails(want, patience)
	}
	for want, args := range map[string][]string{
		"--nats is missing":                    {"host"},
		"hosts need a server":                  {"coordinator"},
		`"ftp://x" is not a NATS server's URL`: {"coordinator", "--nats", "ftp://x"},
		"who is to be enrolled":                {"enroll"},
		`device "17" starts with '1'`:          {"enroll", "17"},
		"--revoke ends credentials":            {"enroll", "pi", "--revoke", "--renew"},
		"--site-config stand alone":            {"enroll", "pi", "--server-config"},
		"one at a time":                        {"enroll", "pi", "--host", "box"},
		"--workers 0: want more than 0":        {"host", "--nats", s.url(), "--workers", "0"},
		`--run: run "a.b" holds '.'; letters`:  {"host", "--nats", s.url(), "--run", "a.b"},
	} {
		p := fedpace(t, args...)
		<-p.done
		if code := p.cmd.ProcessState.ExitCode(); code != 2 || !strings.Contains(p.said(), want) || strings.Count(p.said(), "\n") != 1 {
			t.Errorf("%v: exit status %d, %q; want 2 and one line with %q", args, code, p.said(), want)
		}
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("a folder is left")
	}
}

func TestSecurity_EnrollingTwice(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	k.enroll("pi")
	old, err := os.ReadFile(k.creds("pi"))
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(k.creds("pi")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("its file: %v, %v", info, err)
	}
	fedpace(t, "enroll", "--keys", k.dir, "pi").fails("--renew", patience)
	fedpace(t, "enroll", "--keys", k.dir, "pi", "--out", filepath.Join(k.dir, "x")).fails("has credentials already (--renew issues new ones", patience)
	k.enroll("pi", "--renew")
	if renewed, err := os.ReadFile(k.creds("pi")); err != nil || string(renewed) == string(old) {
		t.Errorf("renewed credentials are the old ones (%v)", err)
	}
	fedpace(t, "enroll", "--keys", k.dir, "--revoke", "pj").fails("device pj has no credentials", patience)
	fedpace(t, "enroll", "--keys", filepath.Join(k.dir, "none"), "--revoke", "pi").fails("there are no keys", patience)
}
