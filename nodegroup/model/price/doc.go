// Package price calculates what nodes and pods cost, for the autoscaler's price expander.
//
// The package is pure: it parses prices from a text and deals with flavors and resources only.
package price
