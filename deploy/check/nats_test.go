package check

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// The server's own parser reads the configuration, as every server of the
// cluster would.
func TestNATS_ReadsConfiguration(t *testing.T) {
	dir := t.TempDir()
	text, err := os.ReadFile("../nats/nats.conf")
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"nats.conf": text, "auth.conf": nil} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	certificates(t, dir)
	t.Setenv("NATS_NAME", "nats-2")
	t.Setenv("NATS_STORE", dir)
	t.Setenv("NATS_ROUTES", "[nats://nats-1:6222, nats://nats-2:6222, nats://nats-3:6222]")
	o, err := server.ProcessConfigFile(filepath.Join(dir, "nats.conf"))
	if err != nil {
		t.Fatal(err)
	}
	if o.ServerName != "nats-2" || o.StoreDir != dir || len(o.Routes) != 3 || o.Routes[1].Host != "nats-2:6222" {
		t.Errorf("the server is %s in %s with routes %v", o.ServerName, o.StoreDir, o.Routes)
	}
	if o.MaxPayload != 16<<20 || !o.NoSublistCache || !o.JetStream {
		t.Errorf("payload %d, sublist cache off %v, JetStream %v", o.MaxPayload, o.NoSublistCache, o.JetStream)
	}
	if o.TLSConfig == nil || len(o.TLSConfig.Certificates) != 1 {
		t.Error("clients come in the clear")
	}
	if c := o.Cluster.TLSConfig; c == nil || c.ClientAuth != tls.RequireAndVerifyClientCert {
		t.Error("whoever reaches the cluster's port is one of its servers")
	}
}

// Three servers form a cluster by it, whose JetStream finds a leader, and let nobody in without
// encryption.
func TestNATS_FormsCluster(t *testing.T) {
	text, err := os.ReadFile("../nats/nats.conf")
	if err != nil {
		t.Fatal(err)
	}
	keys := t.TempDir()
	certificates(t, keys)
	var ports [3]int
	var routes []string
	for i := range ports {
		ports[i] = freePort(t, 20_000+3_000*i)
		routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", ports[i]))
	}
	t.Setenv("NATS_ROUTES", "["+strings.Join(routes, ", ")+"]")
	var servers []*server.Server
	for i, port := range ports {
		dir := t.TempDir()
		for name, content := range map[string][]byte{"nats.conf": text, "auth.conf": nil} {
			if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv("NATS_NAME", fmt.Sprintf("nats-%d", i+1))
		t.Setenv("NATS_STORE", dir)
		o, err := server.ProcessConfigFile(filepath.Join(dir, "nats.conf"))
		if err != nil {
			t.Fatal(err)
		}
		o.Host, o.Port, o.HTTPPort, o.Cluster.Host, o.Cluster.Port, o.NoSigs, o.NoLog = "127.0.0.1", -1, -1, "127.0.0.1", port, true, true // whatever else runs here
		s, err := server.NewServer(o)
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
		servers = append(servers, s)
	}
	leads := func() bool { return slices.ContainsFunc(servers, (*server.Server).JetStreamIsLeader) }
	for deadline := time.Now().Add(time.Minute); !leads(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nobody leads JetStream, so no stream can be made")
		}
	}
	plain, err := net.Dial("tcp", servers[0].Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	greeting, err := bufio.NewReader(plain).ReadString('\n')
	if err != nil || !strings.Contains(greeting, `"tls_required":true`) || !strings.Contains(greeting, `"jetstream":true`) || !strings.Contains(greeting, `"max_payload":16777216`) {
		t.Errorf("it greets with %q, %v", greeting, err)
	}
}

// freePort is one of 3,000 ports, that nothing listens on. They are below those that the system gives
// to whoever dials: one of these could be taken before a server has it, even by a server that dials it.
func freePort(t *testing.T, from int) int {
	t.Helper()
	for range 100 {
		port := from + mathrand.IntN(3_000)
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatalf("no port from %d on is free", from)
	return 0
}

// certificates makes the files of TLS in a folder, self-signed, and names them as the
// configuration asks.
func certificates(t *testing.T, dir string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"nats-2"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"CA": {Type: "CERTIFICATE", Bytes: cert}, "CERT": {Type: "CERTIFICATE", Bytes: cert}, "KEY": {Type: "PRIVATE KEY", Bytes: secret}} {
		path := filepath.Join(dir, name+".pem")
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv("NATS_"+name, path)
	}
}
