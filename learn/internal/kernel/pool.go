package kernel

// MaxPool takes the largest of four maps in x, at the offsets 0, right, down and right+down, and
// writes it to dst. The maps have rows of samples values each, lx floats apart; those of dst are ld
// floats apart. code says which of the four the largest is: the first of equal ones. Lanes beside
// the samples are read and written.
func (isa ISA) MaxPool(rows, samples int, x []float32, lx, right, down int, dst []float32, ld int, code []int32) {
	// Assembly checks no bounds, so the slices are cut to what it reads and writes.
	x = x[:right+down+(rows-1)*lx+Lanes]
	code = code[:rows*Lanes]
	dst = dst[:(rows-1)*ld+Lanes]
	if right < 0 || down < 0 {
		panic("kernel: MaxPool to the left or up")
	}
	if v := isa.vectors(); v != nil {
		fullBlock := samples > Lanes/2
		v.maxPool(rows, &x[0], 4*lx, 4*right, 4*down, &dst[0], 4*ld, &code[0], fullBlock)
		return
	}
	for i := range rows {
		maxima := dst[i*ld:][:samples]
		for l := range maxima {
			first := i*lx + l
			best := x[first]
			winner := int32(0)
			// Only a larger value replaces the best, so the first of equal ones wins.
			for j, offset := range [...]int{right, down, right + down} {
				if v := x[offset+first]; v > best {
					best = v
					winner = int32(j + 1)
				}
			}
			maxima[l] = best
			code[i*Lanes+l] = winner
		}
	}
}

// MaxUnpool writes the gradients of the four positions of MaxPool's 2×2 window to dst: g at the position that code
// names for each value, 0 to 3, and zero at the others. A position has a row for each channel, of one value for each
// of the Lanes samples of a block. The positions lie at the offsets 0, right, down and right+down in dst, with their
// rows one behind the other; the rows of g are ld floats apart. Only the first samples values of a row count.
func (isa ISA) MaxUnpool(rows, samples int, g []float32, ld int, code []int32, dst []float32, right, down int) {
	n := rows * Lanes
	// Assembly checks no bounds, so the slices are cut to what it reads and writes.
	g = g[:(rows-1)*ld+Lanes]
	code = code[:n]
	dst = dst[:right+down+n]
	if right < 0 || down < 0 {
		panic("kernel: MaxUnpool to the left or up")
	}
	if v := isa.vectors(); v != nil {
		// Where the samples fill at most half a block, half of its vectors are enough.
		fullBlock := samples > Lanes/2
		v.maxUnpool(rows, &g[0], 4*ld, &code[0], &dst[0], 4*right, 4*down, fullBlock)
		return
	}
	for j, offset := range [4]int{0, right, down, right + down} {
		for i := range rows {
			gradients := dst[offset+i*Lanes:][:samples]
			in := g[i*ld:][:samples]
			winners := code[i*Lanes:][:samples]
			for l := range gradients {
				// Only the map that had the largest value has a gradient.
				v := float32(0)
				if winners[l] == int32(j) {
					v = in[l]
				}
				gradients[l] = v
			}
		}
	}
}
