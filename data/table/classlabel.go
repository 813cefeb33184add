package table

import (
	"encoding/json"
	"slices"
)

// huggingFace is the part of Hugging Face's metadata that names the classes of a ClassLabel column.
// It is JSON, and a Parquet file holds it under the key "huggingface".
type huggingFace struct {
	Info struct {
		Features map[string]struct {
			Type  string   `json:"_type"`
			Names []string `json:"names"`
		} `json:"features"`
	} `json:"info"`
}

// namedClasses returns the names of the classes of a column by their numbers, as Hugging Face's
// datasets stores them for a ClassLabel in the metadata of Parquet files. It returns nil if a file
// is no Parquet file or has no such names, if two files have different ones, or if they could not
// be the names of a label.
func namedClasses(files []tableFile, column string) (classes []string) {
	for i, f := range files {
		// Columns that the folders give say nothing of the metadata of the file within.
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
		// All files must agree, because class 3 of one would otherwise be another class elsewhere.
		differs := i > 0 && !slices.Equal(classes, feature.Names)
		if !isUsable || differs {
			return nil
		}
		classes = feature.Names
	}
	return classes
}

// areClassNames reports whether names can be the names of classes: none is empty or longer than
// maxClassName bytes, and no two are equal.
func areClassNames(names []string) bool {
	sorted := slices.Sorted(slices.Values(names))
	if len(slices.Compact(sorted)) < len(names) {
		return false
	}
	return !slices.ContainsFunc(names, func(name string) bool { return name == "" || len(name) > maxClassName })
}
