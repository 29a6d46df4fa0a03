package loop

// Four returns a number by a method of another file.
func Four() int { return Box{2}.twice() }
