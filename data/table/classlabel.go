package table

import (
	"encoding/json"
	"slices"
)

// huggingFace is the part of the metadata of Hugging Face's datasets that names classes: in Parquet files
// it stands under the key "huggingface".
type huggingFace struct {
	Info struct {
		Features map[string]struct {
			Type  string   `json:"_type"`
			Names []string `json:"names"`
		} `json:"features"`
	} `json:"info"`
}

// namedClasses are the names of a column's classes by their numbers, which Hugging Face's datasets keeps
// for a ClassLabel in the metadata of Parquet files. It is nil if not all files have the same names, or if
// these could not be the names of a label.
func namedClasses(files []tableFile, column string) (classes []string) {
	for i, f := range files {
		if p, ok := f.(*placedTable); ok {
			f = p.tableFile
		}
		p, ok := f.(*parquetTable)
		if !ok {
			return nil
		}
		var noted huggingFace
		// Metadata that is none of Hugging Face's names no classes.
		if json.Unmarshal([]byte(p.Files[0].Metadata("huggingface")), &noted) != nil {
			return nil
		}
		feature := noted.Info.Features[column]
		isUsable := feature.Type == "ClassLabel" && len(feature.Names) > 0 && areClassNames(feature.Names)
		if !isUsable || i > 0 && !slices.Equal(classes, feature.Names) {
			return nil
		}
		classes = feature.Names
	}
	return classes
}

// areClassNames reports whether names can be those of classes: all different, and short enough to be
// shown.
func areClassNames(names []string) bool {
	sorted := slices.Sorted(slices.Values(names))
	if len(slices.Compact(sorted)) < len(names) {
		return false
	}
	return !slices.ContainsFunc(names, func(name string) bool { return name == "" || len(name) > maxClassName })
}
