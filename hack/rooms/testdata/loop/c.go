package loop

// Four returns the result of a method that another file declares.
func Four() int { return Box{2}.twice() }
