// Package install tests what an operator installs: the Helm charts and the kustomizations, which must be the same, are applied to a
// real control plane, and drover is run as the Deployment there says, with the Deployment's arguments, account, roles, Secrets and
// ConfigMaps, at a simulated OpenStack. It also tests the build of the image, as far as that goes without a container engine.
package install
