// Package price calculates what nodes and pods cost, for the autoscaler's expander price.
//
// It is pure: it reads prices from a text and knows no node groups, only flavors and resources.
package price
