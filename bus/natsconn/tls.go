package natsconn

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"time"
)

// TLSFiles are PEM files. With any of them the connection is encrypted whatever
// the URL's scheme.
type TLSFiles struct {
	CA        string // signs the other end's certificate; empty: the system's
	Cert, Key string // this end's own; both or none
}

// config reads the files; nil where there are none.
func (f TLSFiles) config() (*tls.Config, error) {
	if f == (TLSFiles{}) {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.CA != "" {
		pem, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, fmt.Errorf("bus: TLS: certificate authority: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("bus: TLS: certificate authority: %s holds no certificate in PEM", f.CA)
		}
	}
	switch {
	case f.Cert == "" && f.Key == "":
		return c, nil
	case f.Cert == "" || f.Key == "":
		return nil, errors.New("bus: TLS: a certificate and its key go together, one of them is missing")
	}
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, fmt.Errorf("bus: TLS: certificate: %w", err)
	}
	c.Certificates = []tls.Certificate{pair}
	return c, nil
}

// Server is the TLS of a server that listens, with its own certificate and, where
// CA is given, only for clients with a certificate signed by it.
func (f TLSFiles) Server() (*tls.Config, error) {
	c, err := f.config()
	if c == nil || err != nil {
		return nil, err
	}
	if len(c.Certificates) == 0 {
		return nil, errors.New("bus: TLS: a server needs a certificate and its key")
	}
	if end := c.Certificates[0].Leaf.NotAfter; time.Now().After(end) {
		return nil, fmt.Errorf("bus: TLS: the certificate in %s has ended on %s (fedpace certificate makes another)", f.Cert, end.Local().Format(time.DateOnly))
	}
	if c.RootCAs != nil {
		c.ClientCAs, c.ClientAuth = c.RootCAs, tls.RequireAndVerifyClientCert
	}
	return c, nil
}
