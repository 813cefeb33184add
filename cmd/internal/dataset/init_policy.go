package dataset

import (
	"embed"
	"errors"
	"fedpace/internal/names"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

//go:embed policies/*.py
var policyTexts embed.FS

// policyKind is a kind of policy in Python that init can begin.
type policyKind struct {
	// name is what --policy takes, and the name of the text in policies/.
	name string
	// setting names the policy in a configuration, with FILE in place of its file.
	setting string
}

// policyKinds are the kinds in the order of a run's decisions.
var policyKinds = []policyKind{
	{"eta", "schedule.eta={rule: python, path: FILE}"},
	{"k", "schedule.k={rule: python, path: FILE, reads: losses}"},
	{"selection", "select={rule: python, path: FILE}"},
	{"clients", "select={rule: client_schedule, path: FILE}"},
	{"closing", "close={rule: python, path: FILE, deadline_seconds: 5}"},
	{"combine", "aggregate.combine={rule: python, path: FILE}"},
	{"server", "aggregate={algorithm: python, path: FILE}"},
}

// policyNames returns the names of the kinds of policy that init can begin, in the order in which a
// run asks such policies.
func policyNames() (names []string) {
	for _, k := range policyKinds {
		names = append(names, k.name)
	}
	return names
}

// beginPolicy writes the text of a kind of policy to file, or to KIND.py if file is empty, and
// tells w how a run uses it. An unknown kind is an error, and so is a file that is there: none is
// overwritten.
func beginPolicy(w io.Writer, kind, file string) error {
	i := slices.IndexFunc(policyKinds, func(k policyKind) bool { return k.name == kind })
	if i < 0 {
		return fmt.Errorf("--policy: %q is not one of %s", kind, strings.Join(policyNames(), ", "))
	}
	// The standard name is that of the kind.
	if file == "" {
		file = kind + ".py"
	}
	// Each kind has a text that is part of the program.
	text, err := policyTexts.ReadFile("policies/" + kind + ".py")
	if err != nil {
		return err
	}
	// O_EXCL makes the check and the creation one step.
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s: is there, and init overwrites nothing: remove it, or give another name by --out", file)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	shown := names.Printable(file)
	// The setting of the configuration is printed with the file in its place.
	_, err = fmt.Fprintf(w, "wrote  %s\nnext   fedpace run --set '%s'\n",
		shown, strings.ReplaceAll(policyKinds[i].setting, "FILE", shown))
	return err
}
