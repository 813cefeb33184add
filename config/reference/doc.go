// Package reference writes down all keys of a configuration: as the page
// docs/configuration.md, and as a JSON Schema by which editors check a file. Both follow
// from the tags of [config.Config] and of what is registered.
package reference
