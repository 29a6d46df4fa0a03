// Package e2e holds tests of the whole: drover's binary, a real control plane, a simulated cloud and its servers.
package e2e
