package cloud

// Place is what a shortage is about: a flavor, in a zone.
type Place struct {
	// Flavor as the provider spec names it; empty when it names none.
	Flavor string
	// Zone as the provider spec names it; empty when the cloud chooses.
	Zone string
}
