package network

import "fedpace/learn/internal/kernel"

// Arithmetic computes a model on one worker. Batches and parameters must fit the model: callers have
// checked them.
type Arithmetic interface {
	// Gradients returns the batch's mean loss and keeps its gradient for Update,
	// which always follows.
	Gradients(params []float32, b *Batch) (loss float64)
	// Update adds alpha times the gradient to dst, or stores the gradient (op).
	Update(dst []float32, b *Batch, op kernel.Op, alpha float32)
	// Evaluate returns the sum of the samples' losses, and adds to the scores.
	Evaluate(params []float32, b *Batch, scores []Score) (lossSum float64)
}

// Step takes a step of plain SGD, params ← params + alpha · gradient, and returns the mean loss before
// it. In a batch of one block no later block reads the parameters, so a layer may update its own as
// soon as it has their gradient, which saves a pass over them.
func Step(a Arithmetic, params []float32, b *Batch, alpha float32) (loss float64) {
	// A batch of one block reads the parameters once, so that they may be updated on the way back.
	if j, ok := a.(*joint); ok && b.N <= Lanes {
		a = j.singleNetwork()
	}
	if n, ok := a.(*network); ok && b.N <= Lanes {
		n.alpha = alpha
		defer func() { n.alpha = 0 }()
	}
	loss = a.Gradients(params, b)
	a.Update(params, b, kernel.Add, alpha)
	return loss
}

// network is a list of layers at work on one worker. It takes blocks of samples through all stages to
// the loss and back.
type network struct {
	// samples says what the network reads.
	samples Samples
	// isa selects the kernels.
	isa kernel.ISA
	// collects says that the gradient of dense layers is collected in grad. Networks that read tokens
	// step by step do so; others multiply inputs and gradients of dense layers into the parameters at
	// once.
	collects bool
	// dropouts is the number of dropout layers so far, from which each gets a stream of its own.
	dropouts int
	// trainable is where the parameters that train end. next is where the next layer's parameters
	// begin in each region.
	trainable int
	next      [Regions]int
	// norms are the batch norms so far, of which each has a place in meeting.
	norms int
	// meeting is where the networks that compute blocks of one minibatch find what they share. It is nil
	// without batch norms.
	meeting *meeting
	// wait returns when the networks of all blocks have reached the same batch norm. It is nil if this
	// network computes the whole minibatch.
	wait func()

	// input holds the samples of a block as the first layer reads them.
	input *Activation
	// links are the stages of the list, in order.
	links []*link
	// leaves are all stages that have parameters, those within other stages included.
	leaves []*link
	// activations are the values between stages.
	activations []*Activation
	// z holds the outputs of the last layer. Their gradient is written in their place.
	z *Activation
	// head computes the loss and the scores from the outputs.
	head head

	// alpha is the factor of the gradient in the step that is under way. If it is 0, the parameters
	// must stay as they are until Update.
	alpha float32
	// grad holds the gradient of those parameters whose stages do not keep it themselves.
	grad []float32
	// ranges lists the parts of grad that are in use.
	ranges []span
	// row holds images, one sample after the other.
	row []float32
	// pass is the block that is under way.
	pass Pass
}

// span is a range of parameters, from start to before end.
type span struct{ start, end int }

// updater is a stage that keeps its parameters' gradient itself.
type updater interface {
	// begin takes the parameters of a step and forgets the gradient of the last.
	begin(params []float32)
	// Update adds alpha times the gradient to dst, or stores it (op).
	Update(dst []float32, b *Batch, op kernel.Op, alpha float32)
}

// link is a stage in its place in the network.
type link struct {
	Stage
	*Place
	// params is the number of the stage's parameters from its offset on.
	params int
	// trains says that some of the parameters train.
	trains bool
	// updater is the stage, if it keeps its parameters' gradient itself. If it is nil, the gradient
	// is a part of the network's grad.
	updater updater
	// mask says that, after Backward, the network sets the gradients of the input to zero where a
	// ReLU left 0.
	mask bool
}

// New makes the arithmetic of layers that fit each other and the samples, for batches of up to maxBatch
// samples. The parameters of all layers lie region by region, and in each in the order of the layers.
func New(list []Layer, samples Samples, maxBatch int, isa kernel.ISA) Arithmetic {
	if len(list) == 1 && samples.Input == Sparse && samples.Targets == 0 {
		return &linearWork{newColumns(samples.Features, samples.Classes)}
	}
	sizes := regionSizes(ParametersOf(list, ShapeOf(samples)))
	// Only batch norms that are not frozen have buffers that steps change.
	if sizes[Buffers] > 0 {
		return newJoint(list, samples, sizes, isa)
	}
	return newNetwork(list, samples, sizes, maxBatch, isa, nil)
}

// newNetwork makes a network of the layers and allocates its memory, for batches of up to maxBatch samples. sizes
// holds the number of parameters of all layers in each region. m is where the batch norms of networks that compute
// blocks of the same minibatch meet; it is nil if this network computes all blocks itself.
func newNetwork(
	list []Layer,
	samples Samples,
	sizes [Regions]int,
	maxBatch int,
	isa kernel.ISA,
	m *meeting,
) *network {
	n := &network{
		samples:   samples,
		isa:       isa,
		collects:  samples.Input == Tokens,
		trainable: sizes[Trained],
		meeting:   m,
	}
	// The parameters that train come first, and each further region begins where the one before it ends.
	params := sizes[Trained]
	for region := Buffers; region < Regions; region++ {
		n.next[region] = params
		params += sizes[region]
	}
	n.input = &Activation{Shape: ShapeOf(samples)}
	n.activations = append(n.activations, n.input)
	// Layers say themselves whether they are frozen. The samples need no gradient.
	const allFrozen = false
	const needsInputGradient = false
	// The last stage writes to an activation of its own.
	var final *Activation
	n.links = n.makeStages(list, n.input, final, allFrozen, needsInputGradient)
	// A flatten at the end leaves the outputs in the vector behind the last stage's activation.
	for a := n.links[len(n.links)-1].Y; n.z == nil; a = a.flat {
		if a.flat == nil {
			n.z = a
			a.isOutput = true
		}
	}
	n.trimInputs()
	n.prepareInput()
	blocks := (maxBatch + Lanes - 1) / Lanes
	for _, a := range n.activations {
		a.allocate(blocks, maxBatch)
	}
	if n.input.Form == Image {
		n.row = alignedFloats(Lanes * n.input.width())
	}
	n.head = newHead(samples, isa)
	n.layOut(n.links)
	n.listRanges()
	// Other stages keep their gradient themselves, or add it to the weights at once.
	if len(n.ranges) > 0 {
		n.grad = alignedFloats(params)
	}
	return n
}

// prepareInput decides how samples reach the first stage, before memory is allocated: features as they lie in
// the batch where the stage can read them there, and everything else by [network.readSamples].
func (n *network) prepareInput() {
	// A flatten at the beginning makes the vector the input: samples are read into it.
	for n.input.flat != nil {
		n.input = n.input.flat
	}
	// The features of a batch lie sample by sample already, so they are not copied into rows.
	n.input.borrowed = n.input.Form == Vector
	// Tiles multiply zeros faster than they leave them out.
	n.input.allFeatures = n.isa.Tiles()
	// Instructions that pack tiles can make those of a dense layer's inputs from the rows of the batch itself. That is
	// not done where the layer's gradient is collected block by block (n.collects).
	dense, isDense := n.links[0].Stage.(*denseStage)
	canReadRows := isDense && n.input.borrowed && !n.collects
	if canReadRows && n.isa.PacksTiles() {
		n.input.rowsOnly = true
		dense.readsRows = true
	}
}

// listRanges sets ranges to the parameters whose gradient the network collects in grad.
func (n *network) listRanges() {
	for _, link := range n.leaves {
		// Stages that keep their gradient themselves need no part of grad.
		if link.updater != nil {
			continue
		}
		// Ranges of neighbouring layers become one.
		if last := len(n.ranges) - 1; last >= 0 && n.ranges[last].end == link.offset {
			n.ranges[last].end += link.params
		} else {
			n.ranges = append(n.ranges, span{link.offset, link.offset + link.params})
		}
	}
}

// layOut lets the stages of the links prepare what depends on the layout of their activations, which
// is known only when the whole network is made.
func (n *network) layOut(list []*link) {
	for _, l := range list {
		if s, ok := l.Stage.(interface{ layOut() }); ok {
			s.layOut()
		}
	}
}

// makeStages makes the stages of a list of layers that reads input. With frozen no parameter of the list
// trains; with gradient the gradient of input is needed. The last stage writes to final or, if that is nil,
// to an activation of its own. A list with a final does not end in a flatten. Layers that are fused become one stage,
// and a flatten becomes another view of an activation.
func (n *network) makeStages(list []Layer, input, final *Activation, frozen, gradient bool) (links []*link) {
	for i := 0; i < len(list); {
		layer := list[i]
		in := input.Shape
		// The shapes are known to fit, because the list was checked.
		output, _ := layer.Shape(in)
		if _, ok := layer.(FlattenLayer); ok {
			i++
			// A flatten moves no value: it is a second view of the same activation.
			if in.Form != Vector {
				input.flat = &Activation{Shape: output, relu: input.relu, needsGradient: input.needsGradient}
				n.activations = append(n.activations, input.flat)
				input = input.flat
			}
			continue
		}
		// A stage of several layers reads x and writes what the last of them makes. Three are a
		// convolution, its ReLU and its pooling.
		fused, relu := fuse(list[i:])
		if fused == 3 {
			output, _ = list[i+2].Shape(output)
		}
		target := final
		if i+fused < len(list) || final == nil {
			target = &Activation{Shape: output, relu: relu}
			n.activations = append(n.activations, target)
		}
		place := &Place{
			X:        input,
			Y:        target,
			Gradient: gradient,
			network:  n,
			frozen:   frozen || freezes(layer),
		}
		// From the first layer that trains on, every activation needs its gradient.
		input.needsGradient = input.needsGradient || gradient
		// Of a layer that freezes itself, parametersOf has marked the parameters as frozen.
		parameters := parametersOf(layer, in)
		gradient = gradient || !frozen && trains(parameters)
		target.needsGradient = target.needsGradient || gradient
		stage := layer.Stage(place)
		if fused == 3 {
			stage = &pooledStage{convStage: *stage.(*convStage)}
		}
		links = append(links, n.addLink(stage, place, parameters))
		i += fused
		input = target
	}
	return links
}

// fuse returns how many layers at the head of a list are computed as one stage: a layer alone, a layer with the
// ReLU behind it, or a convolution with its ReLU and a pooling. relu says that the stage has a ReLU, so that its
// outputs are not negative, and have no gradient where they are 0. The last layer of a list is never fused,
// because its outputs need a gradient of their own.
func fuse(list []Layer) (layers int, relu bool) {
	if len(list) < 3 || list[1] != Layer(ReLULayer{}) {
		return 1, false
	}
	switch list[0].(type) {
	case ConvLayer:
		isPoolLast := len(list) == 3
		if list[2] == Layer(PoolLayer{2}) && !isPoolLast {
			return 3, true
		}
		return 2, true
	case DenseLayer, arrangedLayer, NormLayer, ResidualLayer:
		return 2, true
	}
	return 1, false
}

// addLink makes the link of a stage, which is the stage at its place in the network, and gives the stage's
// parameters their indices in the network's vector of parameters. That has regions, such as the trained and the
// frozen ones; n.next has for each region its next free index, which addLink moves on. In a frozen residual layer
// it marks the parameters as frozen.
func (n *network) addLink(stage Stage, place *Place, parameters []Parameter) *link {
	// Within a frozen residual layer all parameters are frozen.
	if place.frozen {
		for i := range parameters {
			parameters[i].Frozen = true
		}
	}
	sizes := regionSizes(parameters)
	l := &link{
		Stage:  stage,
		Place:  place,
		params: sizes[Trained] + sizes[Frozen],
		trains: trains(parameters),
	}
	// The gradient must be 0 where a ReLU in front of the stage gave 0. Some stages see to that themselves.
	masks, ok := stage.(interface{ masks() bool })
	l.mask = place.X.relu && place.Gradient && !(ok && masks.masks())
	if l.params == 0 {
		return l
	}
	// The stages within this one have links of their own, which hold the parameters.
	if _, ok := stage.(*residualStage); ok {
		return l
	}
	// A stage that keeps the gradient of its parameters itself, an updater, needs no part of n.grad.
	l.updater, _ = stage.(updater)
	// The network collects the gradient of this stage in grad.
	if _, dense := stage.(*denseStage); dense && n.collects {
		l.updater = nil
	}
	place.starts = n.next
	for region, size := range sizes {
		n.next[region] += size
	}
	place.offset = place.starts[Trained]
	if place.frozen {
		place.offset = place.starts[Frozen]
	}
	n.leaves = append(n.leaves, l)
	return l
}

// trimInputs reduces the inputs of convolutions to the rows and columns that are read. With a stride, or
// with a pooling that leaves out what fills no square, the last ones may not be read; then the convolution
// before need not compute them, or the network's input is read without them.
func (n *network) trimInputs() {
	// A link's input is the output of the link before, so the last link comes first.
	for i := len(n.links) - 1; i >= 0; i-- {
		var height, width int
		var conv *convStage
		switch stage := n.links[i].Stage.(type) {
		case *convStage:
			conv = stage
			height = stage.Y.Height
			width = stage.Y.Width
		// A pooled stage has two rows and two columns of the convolution for each of its own.
		case *pooledStage:
			conv = &stage.convStage
			height = 2 * stage.Y.Height
			width = 2 * stage.Y.Width
		default:
			continue
		}
		// Of stages, only a convolution before this one can leave out what is not read.
		if i > 0 {
			switch n.links[i-1].Stage.(type) {
			case *convStage, *pooledStage:
			default:
				continue
			}
		}
		conv.X.Height = min(conv.X.Height, (height-1)*conv.Stride+conv.Size-conv.Pad)
		conv.X.Width = min(conv.X.Width, (width-1)*conv.Stride+conv.Size-conv.Pad)
	}
}

// begin prepares the network for a batch with the given parameters, and sets the gradient of the
// last batch to zero.
func (n *network) begin(params []float32, b *Batch) {
	n.pass = Pass{batch: b, all: params}
	for _, l := range n.leaves {
		if l.updater != nil {
			l.updater.begin(params[l.offset:][:l.params])
		}
	}
	// Stages add to the gradient, block by block, so it starts from zero.
	for _, r := range n.ranges {
		clear(n.grad[r.start:r.end])
	}
}

// startBlock prepares the pass for a block of the batch and returns it. place is where activations that are kept
// for the update of the parameters have the block's values: the number of the block where they are, and otherwise
// 0 for all blocks. first is the index of the block's first sample in the batch; training says that a backward
// pass follows.
func (n *network) startBlock(place, first int, training bool) *Pass {
	p := &n.pass
	p.block = place
	p.first = first
	p.Samples = min(Lanes, p.batch.N-first)
	p.Training = training
	return p
}

// Gradients implements [Arithmetic]: it takes the batch through the network and back, block by
// block, and returns the mean loss of its samples.
func (n *network) Gradients(params []float32, b *Batch) (loss float64) {
	return n.sumGradients(params, b) / float64(b.N)
}

// sumGradients takes the batch through the network and back, and returns the sum of its samples' losses.
// The gradient is that of the mean loss of the minibatch that the batch is or is a part of.
func (n *network) sumGradients(params []float32, b *Batch) (loss float64) {
	const training = true
	n.begin(params, b)
	// The gradient is summed over the blocks of the batch.
	for k, first := 0, 0; first < b.N; k, first = k+1, first+Lanes {
		p := n.startBlock(k, first, training)
		n.readSamples(p)
		n.forward(n.links, p)
		loss += n.head.gradient(n.z.values(p), p, 1/float32(b.whole()))
		n.backward(n.links, p)
	}
	return loss
}

// Evaluate implements [Arithmetic]: it returns the sum of the samples' losses and adds to the
// scores. No update of the parameters follows, so all blocks use the place of block 0.
func (n *network) Evaluate(params []float32, b *Batch, scores []Score) (loss float64) {
	const training = false
	n.begin(params, b)
	for first := 0; first < b.N; first += Lanes {
		p := n.startBlock(0, first, training)
		n.readSamples(p)
		n.forward(n.links, p)
		loss += n.head.evaluate(n.z.values(p), p, scores)
	}
	return loss
}

// Update implements [Arithmetic]: it adds alpha times the gradient of the last batch to dst, or
// stores it. Frozen parameters are left as they are.
func (n *network) Update(dst []float32, b *Batch, op kernel.Op, alpha float32) {
	n.updateLeaves(n.leaves, dst, b, op, alpha)
	n.updateCollected(dst, op, alpha)
}

// updateLeaves updates the parameters in dst of those of these stages that keep their gradient themselves (updater) and
// are not frozen: it adds alpha times the gradient to them, or stores the gradient, as op says.
func (n *network) updateLeaves(leaves []*link, dst []float32, b *Batch, op kernel.Op, alpha float32) {
	for _, l := range leaves {
		if l.updater != nil && l.trains {
			l.updater.Update(dst[l.offset:][:l.params], b, op, alpha)
		}
	}
}

// updateCollected is Update for the parameters whose gradient the network collects: n.grad has the gradient of
// parameter i at i, for i in n.ranges.
func (n *network) updateCollected(dst []float32, op kernel.Op, alpha float32) {
	for _, r := range n.ranges {
		// Frozen parameters lie behind trainable, and are left out.
		r.end = max(r.start, min(r.end, n.trainable))
		if op == kernel.Store {
			copy(dst[r.start:r.end], n.grad[r.start:])
		} else {
			n.isa.AddScaled(dst[r.start:r.end], alpha, n.grad[r.start:])
		}
	}
}

// forward takes a block through stages.
func (n *network) forward(list []*link, p *Pass) {
	for _, l := range list {
		l.forward(p)
	}
}

// backward takes a block's gradient through stages, the last one first.
func (n *network) backward(list []*link, p *Pass) {
	for i := len(list) - 1; i >= 0; i-- {
		list[i].backward(p)
	}
}

// selectParameters makes the stage's parameters those of the pass. It also sets the pass's gradient to the
// stage's part of the network's gradient, or to nil if the stage keeps its gradient itself.
func (l *link) selectParameters(p *Pass) {
	p.Parameters = p.all[l.offset:][:l.params]
	p.Gradient = nil
	// Stages with an updater keep their gradient themselves and write nothing here.
	if l.updater == nil && l.network.grad != nil {
		p.Gradient = l.network.grad[l.offset:][:l.params]
	}
}

// forward runs the stage on the pass's block.
func (l *link) forward(p *Pass) {
	l.selectParameters(p)
	l.Stage.Forward(p)
}

// backward runs the stage's Backward on the pass's block, unless none of its parameters trains and no stage
// before it needs the gradient of its inputs (Gradient).
func (l *link) backward(p *Pass) {
	if !l.trains && !l.Gradient {
		return
	}
	l.selectParameters(p)
	l.Stage.Backward(p)
	// The inputs are outputs of a ReLU, which passes a gradient on only where they are positive, and this
	// stage has written the gradient of all of them.
	if l.mask {
		l.X.maskGradient(p, l.network.isa)
	}
}

// readSamples writes the samples of a block into the input of the network, value by value. It leaves texts
// and bags of words, which their stages read from the batch.
func (n *network) readSamples(pass *Pass) {
	activation := n.input
	batch := pass.batch
	switch activation.Form {
	case Vector:
		// The batch has the samples one after the other, as rows wants them.
		activation.rows = batch.X
		if activation.rowsOnly {
			return
		}
		n.isa.Transpose(
			kernel.Block(activation.values(pass)),
			kernel.Matrix{Data: batch.X[pass.first*activation.Channels:], LD: activation.Channels},
			pass.Samples,
			activation.Channels,
		)
		// Features that are 0 in the whole block are noted, so that products can leave them out.
		if activation.used != nil {
			activation.used[pass.block] = usedFeatures(
				activation.used[pass.block],
				activation.values(pass),
				activation.Channels,
				pass.Samples,
			)
		}
	case Image:
		n.readImages(pass)
	}
}

// readImages writes the images of a block into the input of the network. In the batch they lie channel by
// channel, and in the input position by position, within a border of zeros.
func (n *network) readImages(pass *Pass) {
	activation := n.input
	height := n.samples.Image[1]
	width := n.samples.Image[2]
	in := activation.Channels
	ld := activation.width()
	x := activation.values(pass)
	// all begins with the first image of the block.
	all := pass.batch.X[pass.first*in*height*width:]
	for y := range activation.Height {
		for s := range pass.Samples {
			// n.row holds one row of the image for each sample, of ld values: the channels of a position lie side
			// by side, and the row begins and ends with positions of the border. row is the part between these.
			row := n.row[s*ld+activation.border*in:][:activation.Width*in]
			for c := range in {
				index := c
				for _, v := range all[((s*in+c)*height+y)*width:][:activation.Width] {
					row[index] = v
					index += in
				}
			}
		}
		n.isa.Transpose(
			kernel.Block(x[(y+activation.border)*ld*Lanes:]),
			kernel.Matrix{Data: n.row, LD: ld},
			n.isa.Columns(pass.Samples),
			ld,
		)
	}
}
