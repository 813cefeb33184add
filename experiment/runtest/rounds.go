package runtest

import (
	"fedpace/coordinator/round"
	"fedpace/experiment/folder"
)

// ReadRounds are all rounds of a rounds.csv, as [folder.Reports].
func ReadRounds(path string) (list []round.Report, err error) {
	for r, err := range folder.Reports(path) {
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}
