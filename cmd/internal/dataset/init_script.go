package dataset

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"

	"fedpace/data/federated"
	"fedpace/learn"
)

// script is a trainer in PyTorch, with names in braces where the parts below stand.
//
//go:embed script.py.tmpl
var script string

// These are the models of a script, by what a set's samples are.
const (
	tokenModel = `
    return nn.Sequential(  # tells the token behind data.features others
        nn.Embedding(data.vocabulary, 8), nn.Flatten(),
        nn.Linear(8 * data.features, 64), nn.ReLU(), nn.Linear(64, data.classes))`
	wordModel = `
    return nn.Linear(data.features, data.classes)  # of each word's share in a text, in any order`
	textModel = `
    return nn.Sequential(  # the mean of what the tokens stand for; 0 is padding
        nn.EmbeddingBag(data.vocabulary, 32, padding_idx=0), nn.Linear(32, data.classes))`
	numberModel = `
    return nn.Sequential(
        nn.Linear(data.features, 32), nn.ReLU(), nn.Linear(32, data.{outputs}))`
)

// These are the parts of a script for classes: in turn a name in braces and the text that replaces it, as
// strings.NewReplacer takes them.
var classParts = []string{
	"{losses}", "cross_entropy",
	"{scale}", "",
	"{loss}", "cross_entropy(model(x), y)",
	"{metrics}", `
    return {"accuracy": ((model(x).argmax(1) == y).sum(), len(y))}`,
	"{lower}", "",
}

// targetParts are the parts of a script for targets with this mean and standard deviation, in pairs as classParts has
// them.
func targetParts(mean, deviation string) []string {
	return []string{
		"{losses}", "l1_loss, mse_loss",
		"{scale}", fmt.Sprintf(
			"\n\nmean, deviation = %s, %s  # of training targets, which the model learns in this scale",
			mean,
			deviation,
		),
		"{loss}", "mse_loss(model(x), (y - mean) / deviation)",
		"{metrics}", `
    error = l1_loss(mean + deviation * model(x), y, reduction="sum")  # in the unit of the table
    return {"mean_absolute_error": (error, y.numel())}`,
		"{lower}", `, lower=["mean_absolute_error"]`,
	}
}

// modelPart is the model of a script for such a set.
func modelPart(info federated.Info) string {
	switch {
	case predictsNextToken(info.Samples):
		return tokenModel
	case info.Input == learn.Sparse:
		return wordModel
	case info.Input == learn.Tokens:
		return textModel
	case info.Targets > 0:
		return strings.Replace(numberModel, "{outputs}", "targets", 1)
	}
	return strings.Replace(numberModel, "{outputs}", "classes", 1)
}

// scriptFor returns the text of a trainer in PyTorch for a set that info describes. The script scales targets by
// their mean and deviation. file is the name of the table and config the configuration that uses the script;
// both stand in its comments.
func scriptFor(file, config string, info federated.Info) string {
	parts := classParts
	if info.Targets > 0 {
		// A table that could not be read yet has no mean: the user writes it into the script.
		mean := "0"
		deviation := "1"
		if info.TargetMean != nil {
			// Trainers get targets as float32, which these digits tell apart.
			mean = strconv.FormatFloat(info.TargetMean[0], 'g', -1, 32)
			deviation = fmt.Sprintf("%.4g", info.TargetDeviation[0])
		}
		parts = targetParts(mean, deviation)
	}
	names := []string{"{file}", file, "{config}", config, "{model}", modelPart(info)}
	return strings.NewReplacer(append(names, parts...)...).Replace(script)
}
