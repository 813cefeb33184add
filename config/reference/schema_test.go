package reference

import (
	"strings"
	"testing"
)

// The schema knows the layers and their options.
func TestSchema_Layers(t *testing.T) {
	for _, want := range []string{`"network.Layer"`, `"const": "relu"`, `"groups"`} {
		if !strings.Contains(string(Schema()), want) {
			t.Errorf("the schema does not have %s", want)
		}
	}
}
