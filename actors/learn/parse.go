package learn

import (
	"fmt"
	"strconv"
	"strings"
)

// Limits of an architecture: what a mistyped number may at most ask for.
const (
	maxWidth  = 1 << 20
	maxLayers = 64
	maxParams = 1 << 28
)

// Parse reads an architecture:
//
//	linear:5000,2               one layer on a sparse bag of words (Sent140)
//	mlp:784,200,200,62          dense layers with ReLU between them (FEMNIST);
//	                            mlp:784,62 is a dense linear model
//	cnn:3x32x32,32,64,512,100   channels × height × width, two 3×3 convolutions each with
//	                            ReLU and 2×2 max pooling, a dense layer, classes (CIFAR100)
//	gru:80,79,8,128,2           sequence length, vocabulary (also the classes), embedding,
//	                            state, layers (Shakespeare)
//	quadratic:20                strongly convex quadratics in so many dimensions
//	logistic:20,5,0.01          features, classes and mu of multinomial logistic
//	                            regression with mu/2 times the squared norm added
func Parse(spec string) (Model, error) {
	m, err := parseSpec(spec)
	if err != nil {
		return nil, fmt.Errorf("model %q: %w", spec, err)
	}
	return m, nil
}

// forms is what the numbers of each kind mean.
var forms = map[string]string{
	"linear": "FEATURES,CLASSES",
	"mlp":    "FEATURES,HIDDEN,...,CLASSES",
	"cnn":    "CHANNELSxHEIGHTxWIDTH,CHANNELS,CHANNELS,HIDDEN,CLASSES",
	"gru":    "LENGTH,VOCABULARY,EMBEDDING,STATE,LAYERS",

	"quadratic": "DIMENSIONS",
	"logistic":  "FEATURES,CLASSES,MU",
}

func parseSpec(spec string) (Model, error) {
	kind, rest, _ := strings.Cut(spec, ":")
	form, ok := forms[kind]
	if !ok {
		return nil, fmt.Errorf("%q is not an architecture (linear, mlp, cnn, gru, quadratic or logistic)", kind)
	}
	fields := strings.Split(rest, ",")
	if kind == "cnn" {
		image := strings.Split(fields[0], "x")
		if len(image) != 3 {
			return nil, fmt.Errorf("%q is not an image's CHANNELSxHEIGHTxWIDTH", fields[0])
		}
		fields = append(image, fields[1:]...)
	}
	mu := float32(0)
	if kind == "logistic" && len(fields) == 3 {
		var err error
		if mu, err = parseMu(fields[2]); err != nil {
			return nil, err
		}
		fields = fields[:2]
	} else if kind == "logistic" {
		return nil, fmt.Errorf("%d numbers; %s takes %s", len(fields), kind, form)
	}
	if len(fields) > maxLayers {
		return nil, fmt.Errorf("%d widths are more than %d", len(fields), maxLayers)
	}
	var n []int
	for _, s := range fields {
		w, err := strconv.Atoi(s)
		if err != nil || w < 1 || w > maxWidth || s != strconv.Itoa(w) {
			return nil, fmt.Errorf("width %q is not a number from 1 to %d", s, maxWidth)
		}
		n = append(n, w)
	}
	if kind == "quadratic" {
		if len(n) != 1 || n[0] > maxWidth/3 {
			return nil, fmt.Errorf("%q; %s takes %s, one number to %d", rest, kind, form, maxWidth/3)
		}
		return newQuadratic(n[0]), nil
	}
	if want := map[string]int{"linear": 2, "cnn": 7, "gru": 5, "logistic": 2}[kind]; len(n) < 2 || want > 0 && len(n) != want {
		return nil, fmt.Errorf("%d numbers; %s takes %s", len(n), kind, form)
	}
	params, classes := int64(0), n[len(n)-1]
	switch kind {
	case "cnn":
		y, x := pooled(n[1]), pooled(n[2])
		if pooled(y) < 1 || pooled(x) < 1 {
			return nil, fmt.Errorf("an image of %d×%d leaves nothing after two convolutions and poolings; at least 10×10", n[1], n[2])
		}
		if int64(n[0])*int64(n[1])*int64(n[2]) > maxWidth {
			return nil, fmt.Errorf("an image of more than %d values", maxWidth)
		}
		params = product(9, n[0]+n[4], n[3]) + product(n[4], pooled(y)*pooled(x), n[5]) + product(n[5], n[6])
	case "gru":
		classes = n[1]
		if classes > 256 {
			return nil, fmt.Errorf("a vocabulary of %d; a token is a byte, at most 256", n[1])
		}
		if n[4] > maxLayers {
			return nil, fmt.Errorf("%d layers are more than %d", n[4], maxLayers)
		}
		params = product(n[1], n[2]+n[3]) + product(3*n[3], n[2]+n[3]) + product(6*(n[4]-1), n[3], n[3])
	default:
		for l := 1; l < len(n); l++ {
			params += product(n[l-1]+1, n[l])
		}
	}
	if params > maxParams || kind == "gru" && product(n[0], n[3], n[4]) > maxParams {
		return nil, fmt.Errorf("more than %d parameters or states", maxParams)
	}
	if classes < 2 {
		return nil, fmt.Errorf("a classifier needs at least 2 classes")
	}
	switch kind {
	case "linear":
		return newLinear(n[0], n[1]), nil
	case "logistic":
		return newLogistic(n[0], n[1], mu), nil
	case "cnn":
		return newCNN(n[0], n[1], n[2], [2]int{n[3], n[4]}, n[5], n[6]), nil
	case "gru":
		return newGRU(n[0], n[1], n[2], n[3], n[4]), nil
	}
	return newMLP(n), nil
}

// parseMu reads a strength of regularisation, as String writes it.
func parseMu(s string) (float32, error) {
	v, err := strconv.ParseFloat(s, 32)
	mu := float32(v)
	if err != nil || !(mu > 0 && mu <= 1e6) || s != strconv.FormatFloat(float64(mu), 'g', -1, 32) {
		return 0, fmt.Errorf("mu %q is not a number above 0 and up to 1e6 in its shortest form", s)
	}
	return mu, nil
}

func product(factors ...int) int64 {
	p := int64(1)
	for _, f := range factors {
		p *= int64(f)
	}
	return p
}
