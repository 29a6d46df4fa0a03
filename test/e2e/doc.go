// Package e2e holds end-to-end tests: drover's binary, a real control plane, a simulated cloud and its servers.
package e2e
