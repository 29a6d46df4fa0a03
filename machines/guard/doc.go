// Package guard checks that drover's admission policies are in force. The policies keep the authors of Machines, sets and
// deployments from writing values that drover trusts. While the policies are not in force, no part of drover may rely on a
// value that they protect.
package guard
