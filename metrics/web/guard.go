package web

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"fedpace/internal/connlimit"
	"fedpace/internal/names"
)

// silent drops the server's log of errors that clients cause.
var silent = log.New(io.Discard, "", 0)

// mux returns the routes to the pages, each under its own path. If no page is at the root, a list
// of the paths is shown there.
func mux(pages []Page) *http.ServeMux {
	m := http.NewServeMux()
	var list strings.Builder
	list.WriteString("fedpace: this run shows\n")
	root := false
	for _, p := range pages {
		m.Handle(p.Path, admitted(p))
		fmt.Fprintf(&list, "  %s\n", p.Path)
		root = root || p.Path == "/" || p.Path == "/{$}"
	}
	if !root {
		m.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			// An error means that the client has gone, which is not reported.
			_, _ = io.WriteString(w, list.String())
		})
	}
	return m
}

// connKey is the key of the connection in a request's context.
type connKey struct{}

// admitted returns the handler of page p, which admits the connection of each request while it is answered:
// an admitted connection is not closed to make room for others. If as many connections as may be are
// admitted already, the request is refused, unless the page is one that is always answered.
func admitted(p Page) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := r.Context().Value(connKey{}).(*connlimit.Conn)
		switch {
		// The connection is released when the answer is complete.
		case c.Admit():
			defer c.Release()
		case !p.Always:
			w.Header().Set("Retry-After", "10")
			http.Error(w, "this server answers as many requests as it can", http.StatusServiceUnavailable)
			return
		}
		p.Handler.ServeHTTP(w, r)
	})
}

// headers are set on every answer: a page loads nothing from other sites, cannot be
// framed by them, and sends them no referrer.
var headers = map[string]string{
	"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
		"connect-src 'self'; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Referrer-Policy":              "no-referrer",
	"X-Content-Type-Options":       "nosniff",
	"X-Frame-Options":              "DENY",
	"Cache-Control":                "no-store",
}

// guard returns a handler that checks each request before pages sees it. It refuses host names that
// are not this server's, addr being the address it listens on, strange paths, and all methods but
// GET and HEAD. With edits it lets POST pass if the request comes from the server's own page on
// this machine.
func guard(addr string, edits bool, pages http.Handler) http.Handler {
	// The address has a host and a port, because Listen has accepted it.
	name, _, _ := net.SplitHostPort(addr)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		for key, value := range headers {
			h.Set(key, value)
		}
		// The host is checked first, so that a foreign page learns nothing else of the server.
		switch {
		case !answersTo(name, r.Host):
			http.Error(
				w,
				"this server answers to an IP address, to localhost and to the name that it was told to listen on",
				http.StatusMisdirectedRequest,
			)
		case edits && r.Method == http.MethodPost && hasPlainPath(r):
			if err := mayEdit(r); err != nil {
				http.Error(w, err.Error(), http.StatusForbidden)
				return
			}
			r.Body = http.MaxBytesReader(w, r.Body, bodyBytes)
			pages.ServeHTTP(w, r)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "there is nothing here but to read", http.StatusMethodNotAllowed)
		case !hasPlainPath(r):
			http.Error(w, "want a path without dots, backslashes and control characters", http.StatusBadRequest)
		default:
			// The body of a GET or HEAD request means nothing, so no page reads it.
			r.Body = http.NoBody
			pages.ServeHTTP(w, r)
		}
	})
}

// sameOrigin refuses what a browser sends for a page of another site.
var sameOrigin = http.NewCrossOriginProtection()

// mayEdit returns nil if request r may change something, and otherwise why it may not: because it comes
// from another machine, through a proxy or under a name that others may have, or from a page of another
// site.
func mayEdit(r *http.Request) error {
	isLocal := names.Loopback(r.RemoteAddr) && names.Loopback(r.Host)
	isForwarded := r.Header.Get("X-Forwarded-For") != "" || r.Header.Get("Forwarded") != ""
	if !isLocal || isForwarded {
		return errors.New("notes are edited on the machine of the server alone, under localhost")
	}
	// A form cannot send this type, and a script of another site only after the browser has asked.
	if r.Header.Get("Content-Type") != "application/json" {
		return errors.New("want application/json")
	}
	return sameOrigin.Check(r)
}

// answersTo reports whether host, the Host of a request, is a name of this server: an IP address,
// localhost, or the name configured, which is the one it was told to listen on (empty: none). None
// of these can be rebound to another machine (RFC 6761, 6.3).
func answersTo(configured, host string) bool {
	// The host may have a port, which must be a number but need not be the server's.
	if h, port, err := net.SplitHostPort(host); err == nil {
		if strings.Trim(port, "0123456789") != "" {
			return false
		}
		host = h
	} else {
		host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	// A name with a dot at its end is the same name in full.
	host = strings.TrimSuffix(host, ".")
	_, err := netip.ParseAddr(host)
	isAddress := err == nil
	isLocalhost := strings.EqualFold(host, "localhost")
	isConfigured := configured != "" && strings.EqualFold(host, strings.TrimSuffix(configured, "."))
	return isAddress || isLocalhost || isConfigured
}

// hasPlainPath reports whether the path of request r is one that no file system or router reads as
// another: without control characters, backslashes and the parts . and ..
func hasPlainPath(r *http.Request) bool {
	if strings.ContainsFunc(r.URL.Path, func(c rune) bool { return c < ' ' || c == '\\' || c == 0x7f }) {
		return false
	}
	parts := strings.Split(r.URL.Path, "/")
	return !slices.Contains(parts, "..") && !slices.Contains(parts, ".")
}
