package web

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// What edits is asked for on this machine, by pages of this server, with little to say.
func TestEdit_Permission(t *testing.T) {
	served := guard("127.0.0.1:7700", true, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); errors.As(err, new(*http.MaxBytesError)) {
			http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		}
	}))
	for name, test := range map[string]struct {
		change func(*http.Request)
		want   int
	}{
		"a page of this server":       {func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-origin") }, 200},
		"a program":                   {func(*http.Request) {}, 200},
		"localhost":                   {func(r *http.Request) { r.Host = "localhost:7700" }, 200},
		"another machine":             {func(r *http.Request) { r.RemoteAddr = "192.0.2.7:4000" }, 403},
		"the machine's other address": {func(r *http.Request) { r.Host = "192.0.2.7:7700" }, 403},
		"a name of somebody else":     {func(r *http.Request) { r.Host = "rebound.example:7700" }, 421},
		"through a proxy":             {func(r *http.Request) { r.Header.Set("X-Forwarded-For", "192.0.2.7") }, 403},
		"a page of another site":      {func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, 403},
		"an older browser, elsewhere": {func(r *http.Request) { r.Header.Set("Origin", "http://elsewhere.example") }, 403},
		"a form":                      {func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, 403},
		"too much":                    {func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader(strings.Repeat("x", bodyBytes+1))) }, 413},
		"another method":              {func(r *http.Request) { r.Method = http.MethodPut }, 405},
		"a path that climbs":          {func(r *http.Request) { r.URL.Path = "/../notes.json" }, 405},
	} {
		r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:7700/notes.json", strings.NewReader("{}"))
		r.RemoteAddr = "127.0.0.1:4000"
		r.Header.Set("Content-Type", "application/json")
		test.change(r)
		answer := httptest.NewRecorder()
		served.ServeHTTP(answer, r)
		if answer.Code != test.want {
			t.Errorf("%s: %d %s, want %d", name, answer.Code, strings.TrimSpace(answer.Body.String()), test.want)
		}
	}
}
