package certificate

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fedpace/internal/atomicfile"
)

// Folder is the path of a folder with an authority and the certificate of its server, all of them PEM
// files.
type Folder string

// CA returns the path of the authority's certificate, a file that is no secret and that clients get.
func (f Folder) CA() string { return filepath.Join(string(f), "ca.pem") }

// caKey returns the path of the authority's secret key.
func (f Folder) caKey() string { return filepath.Join(string(f), "ca.key") }

// Cert returns the path of the server's certificate, a file that is no secret.
func (f Folder) Cert() string { return filepath.Join(string(f), "server.pem") }

// Key returns the path of the server's secret key.
func (f Folder) Key() string { return filepath.Join(string(f), "server.key") }

const (
	// authorityLife is how long an authority's certificate is valid.
	authorityLife = 10 * 365 * 24 * time.Hour
	// slack is how far another machine's clock may be behind.
	slack = 24 * time.Hour
)

// localNames are the names under which every server is reached on its own machine.
var localNames = []string{"localhost", "127.0.0.1", "::1"}

// Issue makes the certificate of a server that clients reach under the names and IP addresses in
// hosts, and under localhost. It replaces an existing one, and makes the authority that signs it if
// there is none. The certificate is good for life, or until the authority's expires; expiry says
// when.
func (f Folder) Issue(hosts []string, life time.Duration) (expiry time.Time, err error) {
	if len(hosts) == 0 || life <= 0 {
		return expiry, fmt.Errorf("certificate: %d hosts for %v, want some for some time", len(hosts), life)
	}
	if err := os.MkdirAll(string(f), 0o700); err != nil {
		return expiry, fmt.Errorf("certificate: %w", err)
	}
	ca, signer, err := f.authority()
	if err != nil {
		return expiry, err
	}
	template := &x509.Certificate{
		Subject:  pkix.Name{CommonName: hosts[0]},
		NotAfter: slices.MinFunc([]time.Time{time.Now().Add(life), ca.NotAfter}, time.Time.Compare),
		KeyUsage: x509.KeyUsageDigitalSignature,
		// The servers of one cluster identify themselves to each other in both roles.
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, host := range append(hosts, localNames...) {
		switch ip := net.ParseIP(host); {
		case ip != nil:
			template.IPAddresses = append(template.IPAddresses, ip)
		case host == "" || strings.ContainsAny(host, " :/@,"):
			return expiry, fmt.Errorf(
				"certificate: %q is neither a name nor an IP address; want that of a URL, without scheme and port",
				host,
			)
		default:
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return template.NotAfter, f.sign(template, ca, signer, f.Cert(), f.Key())
}

// authority reads the folder's authority and its key, and makes them first if there are none. It
// returns the authority's certificate and its key. An authority that has expired is an error.
func (f Folder) authority() (*x509.Certificate, crypto.Signer, error) {
	_, err := os.Stat(f.caKey())
	// The authority signs its own certificate.
	if errors.Is(err, fs.ErrNotExist) {
		template := &x509.Certificate{
			Subject:               pkix.Name{CommonName: "fedpace"},
			NotAfter:              time.Now().Add(authorityLife),
			KeyUsage:              x509.KeyUsageCertSign,
			IsCA:                  true,
			MaxPathLenZero:        true,
			BasicConstraintsValid: true,
		}
		err = f.sign(template, template, nil, f.CA(), f.caKey())
	}
	if err != nil {
		return nil, nil, err
	}
	pair, err := tls.LoadX509KeyPair(f.CA(), f.caKey())
	if err != nil {
		return nil, nil, fmt.Errorf("certificate: %s with %s: %w", f.CA(), f.caKey(), err)
	}
	if time.Now().After(pair.Leaf.NotAfter) {
		return nil, nil, fmt.Errorf(
			"certificate: the authority in %s has ended: remove %s and %s for another, which everybody must be given",
			f,
			f.CA(),
			f.caKey(),
		)
	}
	// The private keys of all certificates made here can sign.
	return pair.Leaf, pair.PrivateKey.(crypto.Signer), nil
}

// sign makes a key and a certificate for it, and writes both. signer is the key of parent, which signs the
// certificate; if it is nil, the new key signs the certificate, as for an authority. The key is written last,
// so that its presence means that the pair is complete.
func (f Folder) sign(template, parent *x509.Certificate, signer crypto.Signer, certPath, keyPath string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("certificate: make a key: %w", err)
	}
	// Only the authority's certificate is signed by its own key.
	if signer == nil {
		signer = key
	}
	template.NotBefore = time.Now().Add(-slack)
	cert, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return fmt.Errorf("certificate: sign: %w", err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("certificate: encode a key: %w", err)
	}
	encode := func(kind string, b []byte) func(io.Writer) error {
		return func(w io.Writer) error { return pem.Encode(w, &pem.Block{Type: kind, Bytes: b}) }
	}
	if err := atomicfile.Write(certPath, encode("CERTIFICATE", cert)); err != nil {
		return fmt.Errorf("certificate: %w", err)
	}
	if err := atomicfile.WriteSecret(keyPath, encode("PRIVATE KEY", secret)); err != nil {
		return fmt.Errorf("certificate: %w", err)
	}
	return nil
}
