// Package registry holds the plug points: for each kind of component, such as
// closing rules or schedules, the entries that a configuration can name.
//
// A component is one Go file. It declares a struct whose exported fields are
// its options, described by their tags, and registers it by name:
//
//	func init() {
//		Closings.Register("deadline", "what has not arrived by then is late", Deadline{})
//	}
//
//	type Deadline struct {
//		Seconds float64 `key:"seconds" range:"(0,4e9]" unit:"seconds" help:"time after which a round closes"`
//	}
//
// Reading, checking, writing and help of a configuration ask the table and the
// tags; no other place lists the entries. These tags are read:
//
//	key      name in the configuration; a field without one is not an option
//	help     one sentence without a period
//	default  value in YAML when the key is absent; without it the key is required
//	range    numbers that are allowed, as an interval: [1,100], (0,1e6]
//	unit     of the number: seconds, Mbit/s, W
//	words    the only texts allowed, with commas between them
//	word     a word that stands for a whole number outside the range: all=0
//	is       attributes with commas between them:
//	         null   the key may be null, which is the field's zero value
//	         path   the value is the path of a file or folder
//	         inert  the value changes no bit of any result
//	         short  a scalar in place of the map gives this option alone
//	         keyed  a map in place of a list of structs is one of their first options to their second
//	         merged a map of a keyed list adds to it, and replaces only what it names
//	         flat   the key names an entry, whose options stand beside the key
//
// A scalar in place of a list of scalars is a list of one.
//
// Options that several entries share stand in a struct that they embed.
//
// Entries are values, not pointers, so a configuration that holds them can be
// copied and compared. What a component needs of a run it says with [Needs].
//
// The package uses the standard library alone and knows no component.
package registry
