package admission_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"fedpace/bus"
	"fedpace/bus/admission"
	"fedpace/bus/auth"
	"fedpace/bus/bustest"
	"fedpace/bus/embedded"
	"fedpace/bus/natsconn"
	"fedpace/bus/quota"
	"fedpace/internal/testkit/hostile"
	"fedpace/internal/testkit/slow"
)

// siege is a server with a model, and attackers of it.
type siege struct {
	*bustest.Guarded
	target hostile.Target
	model  bus.Digest
	params []float32
}

// newSiege opens a guarded server with a run that has published a model, and a device "evil" as attacker.
func newSiege(t *testing.T) *siege {
	s := &siege{Guarded: bustest.NewGuarded(t), params: make([]float32, bus.ChunkBytes/4)}
	for i := range s.params {
		s.params[i] = float32(i)
	}
	s.model = bus.DigestOf(s.params)
	c, err := s.Inside().OpenCoordinator(t.Context(), "r", bus.CoordinatorConfig{PublishModels: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.WithoutCancel(t.Context())) })
	if err := c.PutModel(t.Context(), s.model, s.params); err != nil {
		t.Fatal(err)
	}
	s.target = hostile.Target{
		Address: strings.TrimPrefix(s.Server.URL(), "nats://"), From: "127.0.0.1", Run: "r", Devices: []string{"evil"}, Creds: [][]byte{s.creds("evil")},
	}
	return s
}

// creds issues credentials of a device.
func (s *siege) creds(id string) []byte {
	s.Helper()
	b, err := s.Authority.Issue(auth.Grant{Role: auth.RoleDevice, ID: id})
	if err != nil {
		s.Fatal(err)
	}
	return b
}

// begin begins an attack, which ends with the test or when end is called.
func (s *siege) begin(name string, count int) (end func()) {
	s.Helper()
	attack, err := hostile.Named(name)
	if err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.Context())
	target := s.target
	target.Count = count
	var running sync.WaitGroup
	running.Go(func() {
		if err := attack.Run(ctx, &target); err != nil {
			s.Errorf("%s: %v", name, err)
		}
	})
	end = func() { cancel(); running.Wait() }
	s.Cleanup(end)
	return end
}

// closed waits until n connections were closed for this reason. Meanwhile it checks that neither more connections nor
// more bytes wait for devices than are allowed.
func (s *siege) closed(why admission.Reason, n int64) {
	s.Helper()
	front, allowed := s.Server.Front(), quota.Default()
	most := int64(allowed.Connections+1) * allowed.Pending() // those of the attacker, and an honest device's one
	for end := time.Now().Add(slow.Patience(s)); ; time.Sleep(5 * time.Millisecond) {
		v := front.Stats()
		if v.Waiting+v.Admitted > front.MaxConnections() {
			s.Fatalf("%+v are open of %d", v, front.MaxConnections())
		}
		if v.Pending > most {
			s.Fatalf("%d bytes wait for devices, at most %d may", v.Pending, most)
		}
		if v.Closed[why] >= n {
			return
		}
		if time.Now().After(end) {
			s.Fatalf("%+v: want %d closed, since %v", v, n, why)
		}
	}
}

// enter connects to the server from a local address, with credentials, as a client does.
func (s *siege) enter(from string, creds []byte) *hostile.Client {
	s.Helper()
	c, err := hostile.Dial(s.Context(), s.target.Address, from)
	if err == nil {
		s.Cleanup(func() { c.Close() })
		err = c.Connect(s.Context(), creds)
	}
	if err != nil {
		s.Fatal(err)
	}
	return c
}

// While devices with credentials ask for all and read nothing, or too slowly, what waits
// for them is bounded, and another device has the model as before.
func TestAdmission_StalledReaders(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	s := newSiege(t)
	pi := s.Connect(s.Creds(auth.Grant{Role: auth.RoleDevice, ID: "pi"}))
	for name, why := range map[string]admission.Reason{"unread": admission.TooMany, "slow": admission.TooMany} {
		end := s.begin(name, 60)
		s.closed(why, 100)
		for range 10 {
			got, err := pi.FetchModel(t.Context(), "r", s.model)
			if err != nil || len(got) != len(s.params) {
				t.Fatalf("%s: an honest device gets %d values, %v", name, len(got), err)
			}
		}
		end()
	}
	if got := s.Server.Front().Sent("pi"); got < 20*bus.ChunkBytes { // what a busy machine has it ask for again comes on top
		t.Errorf("pi was sent %d bytes, want at least those of 20 models", got)
	}
}

// Those who show no credentials give way to others, and whoever connects again and
// again is turned away before anything is read of him.
func TestAdmission_WithoutCredentials(t *testing.T) {
	t.Parallel()
	s := newSiege(t)
	pi := s.creds("pi")
	s.begin("silent", 1000)
	s.closed(admission.Crowded, 1)
	s.begin("half", 100)
	s.begin("connects", 10_000)
	s.closed(admission.TooOften, 1000)
	for range 3 {
		s.enter("127.0.0.2", pi).Close()
	}
	if v := s.Server.Front().Stats(); v.Waiting > 512 {
		t.Errorf("%d connections wait", v.Waiting)
	}
}

// A device has a few connections, and none once it is expelled.
func TestAdmission_ConnectionsPerDevice(t *testing.T) {
	s := newSiege(t)
	var open []*hostile.Client
	for range quota.Default().Connections {
		open = append(open, s.enter("", s.target.Creds[0]))
	}
	refused := func(want string) {
		t.Helper()
		c, err := hostile.Dial(t.Context(), s.target.Address, "")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.Connect(t.Context(), s.target.Creds[0]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	refused("maximum connections exceeded")
	s.enter("", s.creds("pi")) // another has its own
	s.Server.Front().Expel("evil")
	for _, c := range open {
		if m, err := c.Next(t.Context()); err == nil {
			t.Errorf("it is sent %v", m)
		}
	}
	refused("Authorization Violation")
	s.Server.Front().Readmit("evil")
	s.enter("", s.target.Creds[0])
}

// What the server says of credentials that it does not take reaches their holder.
func TestAdmission_RefusedCredentials(t *testing.T) {
	s := newSiege(t)
	other, err := auth.New(filepath.Join(t.TempDir(), "keys"))
	if err != nil {
		t.Fatal(err)
	}
	forged, err := other.Issue(auth.Grant{Role: auth.RoleDevice, ID: "evil"})
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		c, err := hostile.Dial(t.Context(), s.target.Address, "")
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Connect(t.Context(), forged); err == nil || !strings.Contains(err.Error(), "Authorization Violation") {
			t.Errorf("credentials of another server: %v", err)
		}
		c.Close()
	}
}

// What a device may not send, the server still refuses; and what it does not end costs
// it a connection.
func TestAdmission_OversizedMessages(t *testing.T) {
	s := newSiege(t)
	s.begin("unfinished", 2)
	c := s.enter("", s.target.Creds[0])
	if err := c.Publish("fedpace.r.client.evil.update.0", "", make([]byte, 1<<20)); err == nil {
		_, err = c.Next(t.Context())
		if err == nil || !strings.Contains(err.Error(), "Maximum Payload Violation") {
			t.Errorf("a message of 1 MiB: %v", err)
		}
	}
	s.enter("", s.creds("pi"))
}

// A stream of the protocol passes as it is, cut anywhere.
func TestAdmission_Passes(t *testing.T) {
	s := newSiege(t)
	c := s.enter("", s.target.Creds[0])
	inbox := "_INBOX_evil.x"
	if err := c.Subscribe("_INBOX_evil.>", 1); err != nil {
		t.Fatal(err)
	}
	request := []byte("$JS.API.DIRECT.GET.fedpace_r_models.fedpace.r.model." + s.model.String() + ".0")
	for i, text := range []string{
		"PUB %s %s 0\r\n\r\n", "pub\t%s  %s 2 \r\n{}\r\n", "HPUB %s %s 12 12\r\nNATS/1.0\r\n\r\n\r\n",
	} {
		message := []byte(strings.NewReplacer("%s %s", string(request)+" "+inbox+fmt.Sprint(i), "%s  %s", string(request)+"  "+inbox+fmt.Sprint(i)).Replace(text))
		for j := range message {
			if _, err := c.Write(message[j : j+1]); err != nil {
				t.Fatal(err)
			}
		}
		m, err := c.Next(t.Context())
		if err != nil || len(m.Data) < bus.ChunkBytes || !bytes.HasPrefix(m.Header, []byte("NATS/1.0\r\n")) {
			t.Fatalf("%q: %v", message, err)
		}
	}
}

func TestAdmission_OverTLS(t *testing.T) {
	dir := t.TempDir()
	authority, err := auth.New(filepath.Join(dir, "keys"))
	if err != nil {
		t.Fatal(err)
	}
	files := certificate(t, dir)
	config, err := files.Server()
	if err != nil {
		t.Fatal(err)
	}
	server, err := embedded.Start(t.Context(), embedded.Config{Listen: "127.0.0.1:0", Authority: authority, TLS: config})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	b, err := authority.Issue(auth.Grant{Role: auth.RoleDevice, ID: "pi"})
	if err != nil {
		t.Fatal(err)
	}
	creds := filepath.Join(dir, "pi.creds")
	if err := os.WriteFile(creds, b, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := natsconn.Connect(t.Context(), natsconn.Config{URL: server.URL(), Creds: creds, TLS: natsconn.TLSFiles{CA: files.Cert}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.NATS().TLSConnectionState(); err != nil {
		t.Error(err)
	}
	plain, err := net.Dial("tcp", strings.TrimPrefix(server.URL(), "tls://"))
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	if _, err := plain.Write([]byte("CONNECT {}\r\nPING\r\n")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 1<<16)
	n := 0
	for err == nil && n < len(got) {
		var m int
		m, err = plain.Read(got[n:])
		n += m
	}
	if bytes.Contains(got[:n], []byte("PONG")) {
		t.Error("it answers in the clear")
	}
}

// certificate makes a certificate that its own key signs, in files of folder dir.
func certificate(t *testing.T, dir string) natsconn.TLSFiles {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	files := natsconn.TLSFiles{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	for path, block := range map[string]*pem.Block{files.Cert: {Type: "CERTIFICATE", Bytes: der}, files.Key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tls.LoadX509KeyPair(files.Cert, files.Key); err != nil {
		t.Fatal(err)
	}
	return files
}

// Commands within a message do not escape the device's rate: a line that the server would read
// as another one ends its connection.
func TestParse_NothingHides(t *testing.T) {
	s := newSiege(t)
	pi := s.creds("pi")
	s.begin("hidden", 1)
	s.closed(admission.Malformed, 3)
	for _, line := range []string{"PING\rPING\r\n", "SUB _INBOX_evil.>\r 1\n", "\rPING\r\n", "PING\r\r\n", "PUB a\r 3\r\n"} {
		before := s.Server.Front().Stats().Closed[admission.Malformed]
		c := s.enter("127.0.0.2", pi)
		if err := c.Say("%s", line); err != nil {
			t.Fatal(err)
		}
		s.closed(admission.Malformed, before+1)
		_ = c.Close() // its other end is gone
	}
}
