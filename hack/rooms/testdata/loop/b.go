package loop

func double(n int) int { return 2 * n }

func total(boxes []Box) (n int) {
	for _, b := range boxes {
		// A line with only a comment does not count as a line of the function.
		n += b.size
	}
	return
}
