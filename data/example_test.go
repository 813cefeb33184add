package data_test

import (
	"fmt"
	"os"
	"path/filepath"

	"fedpace/data"
	"fedpace/data/federated"
)

// A set is opened by its path alone: here Sentiment140's CSV, in which each user is a client. Without held-out
// tweets in the file, four fifths of a client's tweets train and the rest is held out.
func ExampleOpen() {
	folder, err := os.MkdirTemp("", "tweets")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	text := ""
	for i := range 30 {
		text += fmt.Sprintf("\"%d\",\"1\",\"a date\",\"NO_QUERY\",\"user%d\",\"tweet number %d\"\n", 4*(i%2), i/10, i)
	}
	path := filepath.Join(folder, "tweets.csv")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		panic(err)
	}
	set, err := data.Open(path, federated.Options{Seed: 1})
	if err != nil {
		panic(err)
	}
	for client := range set.Clients() {
		fmt.Println(set.Client(client), "trains on", set.Samples(client))
	}
	fmt.Println(set.HeldOut(), "are held out")
	// Output:
	// user0 trains on 8
	// user1 trains on 8
	// user2 trains on 8
	// 6 are held out
}
