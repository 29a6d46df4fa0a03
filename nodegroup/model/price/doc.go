// Package price calculates what nodes and pods cost, for the autoscaler's expander price.
//
// It is pure: it parses prices from a text and deals with flavors and resources only.
package price
