//go:build unix

package samebits

import (
	"bytes"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"fedpace/config"
	"fedpace/config/reference"
	_ "fedpace/experiment/run" // with all readers and outputs
	"fedpace/internal/testkit/slow"
)

// The schema takes the configuration of every run here.
func TestSchema_EveryRun(t *testing.T) {
	slow.Test(t, "it validates every configuration; cmd does so with the documented ones")
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(reference.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("fedpace.json", document); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("fedpace.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		c, err := config.Load("", strings.Fields(r.sets))
		if err != nil {
			t.Fatalf("%s: %v", r.name, err)
		}
		inJSON, err := yaml.YAMLToJSON(c.YAML())
		if err != nil {
			t.Fatal(err)
		}
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(inJSON))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(value); err != nil {
			t.Errorf("%s: %v", r.name, err)
		}
	}
}
