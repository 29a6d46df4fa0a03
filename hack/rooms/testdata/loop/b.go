package loop

func double(n int) int { return 2 * n }

func total(boxes []Box) (n int) {
	for _, b := range boxes {
		// This line does not count.
		n += b.size
	}
	return
}
