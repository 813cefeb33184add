package config

import (
	"encoding/json"
	"fmt"

	"github.com/goccy/go-yaml"
)

// MarshalJSON writes the resolved configuration as one object with the keys of
// the file, nested as there.
func (c Config) MarshalJSON() ([]byte, error) {
	text, err := yaml.YAMLToJSON(c.YAML())
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return json.RawMessage(text), nil
}
