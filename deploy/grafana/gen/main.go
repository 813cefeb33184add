package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "gen: want one argument: the folder for the dashboards")
		os.Exit(2)
	}
	for _, d := range dashboards() {
		text, err := render(d)
		if err == nil {
			err = os.WriteFile(filepath.Join(os.Args[1], d.file()), text, 0o666)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "gen:", err)
			os.Exit(1)
		}
	}
}

// dashboards are all of them.
func dashboards() []Dashboard {
	return []Dashboard{runsOverview(), oneRun(), stragglers(), realDevices()}
}

func (d *Dashboard) file() string { return d.UID + ".json" }

// render is a dashboard's file.
func render(d Dashboard) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // queries compare
	e.SetIndent("", "  ")
	err := e.Encode(d)
	return b.Bytes(), err
}
