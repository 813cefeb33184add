package folder

import (
	"regexp"

	"fedpace/config"
)

// userInfo matches a URL with a user before its host, as in nats://me:secret@server.
var userInfo = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^/?#\s"',]*@`)

// CheckSecrets refuses a configuration in which any key holds a URL with a user or a password.
// The configuration is written to the run's folder, where everybody may read it, and is sent to
// every host. The error names the key and does not repeat its value.
func CheckSecrets(c config.Config) error {
	for _, change := range config.Demonstration().Changes(c) {
		if userInfo.MatchString(change.NewValue) {
			return &config.KeyError{
				Key: change.Key,
				Problem: "holds a URL with a user or a password, which would stand in the folder's " + ConfigFile +
					" and be sent to hosts (leave them out; remote_write takes them from its credentials_file)",
			}
		}
	}
	return nil
}
