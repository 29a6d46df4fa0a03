// Package guard looks whether the admission policies are in force that keep authors of Machines, sets and deployments from
// writing what drover believes. While they are not, nobody may rely on a value that they guard.
package guard
