package ui

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"fedpace/config"
	"fedpace/experiment/folder"
	"fedpace/metrics/page"
	"fedpace/metrics/web"
)

// Pages implements [web.Pager]: the page, on which notes can be edited.
func (l *Library) Pages() []web.Page {
	return []web.Page{{Path: "/", Handler: l.Handler(), Edits: true}}
}

// Handler answers GET and HEAD, and POST of notes, on the page's parts and on
//
//	/runs.json                    the list
//	/curves.bin?run=ID            a run's columns (see encode)
//	/snapshot.json?run=ID         a run as its own page shows it
//	/round.json?run=ID&round=N    the tasks of a round
//	/notes.json?run=ID            takes a run's notes
//
// The server checks hosts and sets the security headers.
func (l *Library) Handler() http.Handler {
	mux := http.NewServeMux()
	page.Routes(mux, page.ManyRuns)
	mux.HandleFunc("GET /runs.json", func(w http.ResponseWriter, _ *http.Request) {
		// A list that could not be renewed is still an error, so that no stale one is taken for the
		// newest.
		runs, err := l.list(time.Now())
		text, jsonErr := l.listJSON(rowsOf(runs))
		answer(w, "application/json", text, errors.Join(err, jsonErr))
	})
	mux.HandleFunc("GET /curves.bin", l.forRun(func(r *run, _ *http.Request) ([]byte, error) {
		c, err := r.read()
		if err != nil {
			return nil, err
		}
		return c.encode(math.MaxInt)
	}))
	mux.HandleFunc("GET /snapshot.json", l.forRun(func(r *run, _ *http.Request) ([]byte, error) {
		return r.snapshot()
	}))
	mux.HandleFunc("GET /round.json", l.forRun(func(r *run, q *http.Request) ([]byte, error) {
		number, err := strconv.Atoi(q.FormValue("round"))
		if err != nil {
			return nil, errors.New("want round=NUMBER")
		}
		return r.timeline(number)
	}))
	mux.HandleFunc("POST /notes.json", l.forRun(func(r *run, q *http.Request) ([]byte, error) {
		var notes folder.Notes
		// The server limits the length of the body.
		err := json.NewDecoder(q.Body).Decode(&notes)
		if err == nil {
			err = r.WriteNotes(notes)
		}
		return []byte("{}\n"), err
	}))
	return mux
}

// forRun returns a handler for requests that name a run in the field run, by its id. text makes the
// body of the answer for that run; its error is the answer if it fails. An unknown run is answered
// with status 404.
func (l *Library) forRun(text func(*run, *http.Request) ([]byte, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, q *http.Request) {
		r := l.find(q.FormValue("run"))
		if r == nil {
			http.Error(w, "there is no such run: runs.json lists them", http.StatusNotFound)
			return
		}
		body, err := text(r, q)
		answer(w, "application/octet-stream", body, err)
	}
}

// answer writes body to w as a response of the content type kind. If err is not nil, it writes that
// as text instead, with status 422.
func answer(w http.ResponseWriter, kind string, body []byte, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	// An error means that the client has gone, which is not reported.
	_, _ = w.Write(body)
}

// library is the list as the page reads it.
type library struct {
	// Folders are those that are looked through.
	Folders []string `json:"folders"`
	// Version is that of the program.
	Version string `json:"version"`
	// Runs are the rows of the list.
	Runs []listedRun `json:"runs"`
	// Defaults are all settings of each task's defaults, as key=value. A run's own settings go over them.
	Defaults map[string][]string `json:"defaults"`
}

// listJSON returns the list with these rows as JSON, as the page reads it, with the default
// settings of each task that a row has. It fails if a row has an unknown task.
func (l *Library) listJSON(rows []listedRun) ([]byte, error) {
	defaults := map[string][]string{}
	for i := range rows {
		task := rows[i].Task
		// A damaged run has no task, and runs of one task share its defaults.
		if task == "" || defaults[task] != nil {
			continue
		}
		standard, err := config.Defaults(config.Task(task))
		if err != nil {
			return nil, err
		}
		defaults[task] = standard.Settings()
	}
	return json.Marshal(library{l.dirs, l.version, rows, defaults})
}
