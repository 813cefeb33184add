package kernel

// MaxPool takes the largest of four maps in x, at 0, right, down and right+down, with rows
// of samples lx floats apart, and writes it to dst, rows of Lanes ld floats apart. code says
// which of the four it is: the first largest. Lanes beside the samples are read and written.
func (isa ISA) MaxPool(rows, samples int, x []float32, lx, right, down int, dst []float32, ld int, code []int32) {
	x = x[:right+down+(rows-1)*lx+Lanes]
	code = code[:rows*Lanes]
	dst = dst[:(rows-1)*ld+Lanes]
	if right < 0 || down < 0 {
		panic("kernel: MaxPool to the left or up")
	}
	if v := isa.vectors(); v != nil {
		v.maxPool(rows, &x[0], 4*lx, 4*right, 4*down, &dst[0], 4*ld, &code[0], samples > Lanes/2)
		return
	}
	for i := range rows {
		maxima := dst[i*ld:][:samples]
		for l := range maxima {
			first := i*lx + l
			best := x[first]
			winner := int32(0)
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

// MaxUnpool writes the gradients of MaxPool's four maps: g, rows of Lanes ld
// floats apart, in the map that code names, zero in the others. The maps, rows ×
// Lanes each, are at 0, right, down and right+down in dst. Of the rows only the first
// samples count.
func (isa ISA) MaxUnpool(rows, samples int, g []float32, ld int, code []int32, dst []float32, right, down int) {
	n := rows * Lanes
	g = g[:(rows-1)*ld+Lanes]
	code = code[:n]
	dst = dst[:right+down+n]
	if right < 0 || down < 0 {
		panic("kernel: MaxUnpool to the left or up")
	}
	if v := isa.vectors(); v != nil {
		v.maxUnpool(rows, &g[0], 4*ld, &code[0], &dst[0], 4*right, 4*down, samples > Lanes/2)
		return
	}
	for j, offset := range [4]int{0, right, down, right + down} {
		for i := range rows {
			gradients := dst[offset+i*Lanes:][:samples]
			in := g[i*ld:][:samples]
			winners := code[i*Lanes:][:samples]
			for l := range gradients {
				v := float32(0)
				if winners[l] == int32(j) {
					v = in[l]
				}
				gradients[l] = v
			}
		}
	}
}
